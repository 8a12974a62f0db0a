package machine

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
)

// Cgroups moves processes of a test to cgroups below CgroupParent.
type Cgroups struct {
	t      testing.TB
	mounts map[string]string // mount points of the hierarchies, by controllers as in /proc/PID/cgroup
}

// NewCgroups finds the mounted cgroup hierarchies.
func NewCgroups(t testing.TB) Cgroups {
	t.Helper()
	mounted, err := mountinfo.GetMounts(mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		t.Fatal(err)
	}
	c := Cgroups{t, map[string]string{}}
	for hierarchy := range c.all(os.Getpid()) {
		for _, m := range mounted {
			first, _, _ := strings.Cut(hierarchy, ",")
			if hierarchy == "" && m.FSType == "cgroup2" || hierarchy != "" && slices.Contains(strings.Split(m.VFSOptions, ","), first) {
				c.mounts[hierarchy] = m.Mountpoint
			}
		}
	}
	if len(c.mounts) == 0 {
		t.Fatal("no cgroup hierarchy is mounted")
	}
	return c
}

// Hierarchies lists the mounted hierarchies, sorted.
func (c Cgroups) Hierarchies() []string { return slices.Sorted(maps.Keys(c.mounts)) }

// Mount returns where a hierarchy is mounted.
func (c Cgroups) Mount(hierarchy string) string { return c.mounts[hierarchy] }

// Of returns the cgroups of a process by hierarchy, in those that are mounted.
func (c Cgroups) Of(pid int) map[string]string {
	c.t.Helper()
	of := c.all(pid)
	maps.DeleteFunc(of, func(hierarchy, _ string) bool { return c.mounts[hierarchy] == "" })
	return of
}

func (c Cgroups) all(pid int) map[string]string {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		c.t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) { // cgroups(7)
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		all[parts[1]] = parts[2]
	}
	return all
}

// Put moves a process to a cgroup below CgroupParent in the given hierarchies, and
// creates that cgroup.
func (c Cgroups) Put(pid int, group string, hierarchies ...string) {
	c.t.Helper()
	for _, hierarchy := range hierarchies {
		c.write(pid, group, hierarchy, "cgroup.procs")
	}
}

// PutThread moves a single thread. Only cgroup v1 supports this.
func (c Cgroups) PutThread(tid int, group, hierarchy string) {
	c.t.Helper()
	c.write(tid, group, hierarchy, "tasks")
}

// Join moves a process to a cgroup that exists, as Of returns it.
func (c Cgroups) Join(pid int, hierarchy, group string) error {
	return os.WriteFile(filepath.Join(c.mounts[hierarchy], group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
}

// LimitMemory limits the memory of the cgroup that a process is in. The process is killed
// if it wants more.
func (c Cgroups) LimitMemory(pid, bytes int) {
	c.t.Helper()
	of := c.Of(pid)
	at, limit, swap := filepath.Join(c.mounts["memory"], of["memory"]), "memory.limit_in_bytes", "memory.swappiness"
	if _, v1 := of["memory"]; !v1 {
		at, limit, swap = filepath.Join(c.mounts[""], of[""]), "memory.max", "memory.swap.max"
	}
	if err := os.WriteFile(filepath.Join(at, limit), []byte(strconv.Itoa(bytes)), 0); err != nil {
		c.t.Fatal(err)
	}
	_ = os.WriteFile(filepath.Join(at, swap), []byte("0"), 0) // not every kernel has it
}

func (c Cgroups) write(id int, group, hierarchy, file string) {
	c.t.Helper()
	at := c.mounts[hierarchy]
	for part := range strings.SplitSeq(strings.Trim(CgroupParent()+group, "/"), "/") {
		above := at
		at = filepath.Join(at, part)
		if err := os.MkdirAll(at, 0o755); err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(hierarchy, "cpuset") {
			c.inheritCPUs(above, at)
		}
	}
	if err := os.WriteFile(filepath.Join(at, file), []byte(strconv.Itoa(id)), 0); err != nil {
		c.t.Fatalf("put %d into %s: %v", id, at, err)
	}
}

// inheritCPUs sets the CPUs and memory nodes of a new cpuset, which accepts no process
// while they are empty, cpuset(7).
func (c Cgroups) inheritCPUs(from, to string) {
	c.t.Helper()
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(to, file))
		if err == nil && len(bytes.TrimSpace(have)) == 0 {
			if have, err = os.ReadFile(filepath.Join(from, file)); err == nil {
				err = os.WriteFile(filepath.Join(to, file), have, 0)
			}
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}
