package guest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/process"
)

// membership is a process's place in every cgroup hierarchy: the hierarchy's
// controllers, as /proc/PID/cgroup names them, to its path in it.
type membership map[string]string

// parseMembership reads a cgroup file of /proc (cgroups(7)): lines of
// HIERARCHY-ID:CONTROLLERS:PATH.
func parseMembership(data string) membership {
	m := membership{}
	for line := range strings.Lines(data) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) == 3 {
			m[parts[1]] = parts[2]
		}
	}
	return m
}

func readMembership(file string) (membership, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseMembership(string(data)), nil
}

// inside returns the hierarchies in which m lies within container. A container
// that has no cgroup of its own in a hierarchy sits at its root there, and the
// root is nobody's.
func (m membership) inside(container membership) []string {
	var names []string
	for name, own := range container {
		if at := m[name]; own != "/" && (at == own || strings.HasPrefix(at, own+"/")) {
			names = append(names, name)
		}
	}
	return names
}

// Container is the cgroup of a container, taken while its first process runs:
// when that has ended, /proc says no more where it was.
type Container struct {
	Runtime int // the process that started it and waits for its end: the engine's shim

	proc   string
	own    membership
	mounts map[string]string
}

// ContainerOf reads the cgroup of the container whose first process is pid. In
// a hierarchy that its runtime does not know it sits where the runtime sits:
// that is not the container's, and what else is there must not be killed as such.
// process.ErrEnded, wrapped, if the process has ended.
func ContainerOf(proc string, pid int) (Container, error) {
	own, err := readMembership(filepath.Join(proc, strconv.Itoa(pid), "cgroup"))
	if gone(err) {
		err = process.ErrEnded
	}
	if err != nil {
		return Container{}, fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	}
	runtime := parent(proc, pid)
	for _, outside := range []string{"self", runtime} {
		m, err := readMembership(filepath.Join(proc, outside, "cgroup"))
		if err != nil {
			continue // it ended
		}
		for _, name := range m.inside(own) {
			delete(own, name)
		}
	}
	mountinfo, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo"))
	if err != nil {
		return Container{}, fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	shim, err := strconv.Atoi(runtime)
	if err != nil {
		shim = 0 // the first process has just ended
	}
	return Container{Runtime: shim, proc: proc, own: own, mounts: hierarchies(string(mountinfo))}, nil
}

// parent is who started a process: the runtime, if it is a container's first.
func parent(proc string, pid int) string {
	fields, err := statFields(filepath.Join(proc, strconv.Itoa(pid)))
	if err != nil {
		return "self"
	}
	return fields[1]
}

// Holds returns the hierarchies, sorted, in which any thread of a process sits
// in the container: its end would be the process's. A thread that has ended
// stays where it was until it is reaped, but nothing can happen to it.
func (c Container) Holds(pid int) ([]string, error) {
	tasks, err := filepath.Glob(filepath.Join(c.proc, strconv.Itoa(pid), "task", "*", "cgroup"))
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	seen := map[string]bool{}
	for _, task := range tasks {
		m, err := readMembership(task)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names := m.inside(c.own)
		if len(names) > 0 && ended(filepath.Dir(task)) {
			continue
		}
		for _, name := range names {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// ended reports whether a process or thread is a zombie, or gone.
func ended(dir string) bool {
	fields, err := statFields(dir)
	return gone(err) || err == nil && (fields[0] == "Z" || fields[0] == "X")
}

// Processes returns every process in the container's cgroup and those below it.
func (c Container) Processes() ([]int, error) {
	pids := map[int]bool{}
	for name, own := range c.own {
		mount, ok := c.mount(name)
		if own == "/" || !ok {
			continue
		}
		err := processesBelow(filepath.Join(mount, own), pids)
		if err != nil {
			return nil, fmt.Errorf("list the processes of a container: %w", err)
		}
	}
	return slices.Sorted(maps.Keys(pids)), nil
}

// processesBelow reads the processes of a cgroup and of those below it. A cgroup
// that has none below it is not listed: its directory has two links then, and a
// service is down meanwhile.
func processesBelow(dir string, pids map[int]bool) error {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if gone(err) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if err := readProcs(filepath.Join(dir, "cgroup.procs"), pids); err != nil || st.Nlink == 2 {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !gone(err) {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := processesBelow(filepath.Join(dir, entry.Name()), pids); err != nil {
			return err
		}
	}
	return nil
}

// readProcs reads a cgroup.procs file. One of a threaded cgroup cannot be read
// (EOPNOTSUPP, cgroups(7)); its processes stand in the domain above it.
func readProcs(file string, pids map[int]bool) error {
	data, err := os.ReadFile(file)
	if gone(err) || errors.Is(err, errThreaded) || errors.Is(err, errNoDevice) {
		return nil
	}
	if err != nil {
		return err
	}
	for field := range bytes.FieldsSeq(data) {
		if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
			pids[pid] = true
		}
	}
	return nil
}

func (c Container) mount(name string) (string, bool) {
	for _, controller := range strings.Split(name, ",") {
		if at, ok := c.mounts[controller]; ok {
			return at, true
		}
	}
	return "", false
}

// move puts all threads of a process into the group at the top of a hierarchy.
func (c Container) move(pid int, name, group string) error {
	mount, ok := c.mount(name)
	if !ok {
		return fmt.Errorf("the cgroup hierarchy %q is not mounted here", name)
	}
	dir := path.Join(mount, group)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if strings.Contains(","+name+",", ",cpuset,") {
		if err := inheritCPUs(mount, dir); err != nil {
			return err
		}
	}
	err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if gone(err) {
		return nil
	}
	return err
}

// inheritCPUs fills a new cpuset of cgroup v1, which takes no process while it
// is empty (cpuset(7)).
func inheritCPUs(from, to string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		have, err := os.ReadFile(filepath.Join(to, file))
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(have)) > 0 {
			continue
		}
		all, err := os.ReadFile(filepath.Join(from, file))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, file), all, 0); err != nil {
			return err
		}
	}
	return nil
}
