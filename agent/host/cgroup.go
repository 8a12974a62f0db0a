package host

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// CgroupV2 reports whether the machine has the unified hierarchy alone
// (cgroups(7)).
func (h Host) CgroupV2() (bool, error) {
	root := filepath.Join(h.Sys, "fs/cgroup")
	if _, err := os.Stat(root); err != nil {
		return false, err
	}
	return exists(filepath.Join(root, "cgroup.controllers")), nil
}

// LimitsSwap reports whether the machine can limit how much swap a cgroup uses: on
// some, the kernel has to be started with swapaccount=1.
func (h Host) LimitsSwap() bool {
	root := filepath.Join(h.Sys, "fs/cgroup")
	if exists(filepath.Join(root, "memory/memory.memsw.limit_in_bytes")) {
		return true
	}
	found, err := filepath.Glob(filepath.Join(root, "*/memory.swap.max")) // the root has none
	return err == nil && len(found) > 0
}

// Cgroup is the cgroup of a container, in all hierarchies. It is read while the
// container's first process runs: afterwards /proc no longer has it.
type Cgroup struct {
	Shim int // parent of the first process: the engine's shim; 0 if unknown

	host   Host
	own    Membership
	mounts map[string]string
}

// CgroupOf reads the cgroup of the container whose first process is pid. In a
// hierarchy that the runtime does not use, the container shares the cgroup of
// the shim or of this process: that one is not the container's. ErrExited,
// wrapped, if the process has exited.
func (h Host) CgroupOf(pid int) (Cgroup, error) {
	own, err := h.Membership(pid)
	if Gone(err) {
		err = ErrExited
	}
	if err != nil {
		return Cgroup{}, fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	}
	shim, err := h.Parent(pid)
	if err != nil {
		shim = 0 // the first process has just exited
	}
	for _, outside := range []string{"self", number(shim)} {
		m, err := h.membership(outside)
		if err != nil {
			continue // it has exited
		}
		for _, name := range m.inside(own) {
			delete(own, name)
		}
	}
	mounts, err := h.hierarchies()
	if err != nil {
		return Cgroup{}, err
	}
	return Cgroup{Shim: shim, host: h, own: own, mounts: mounts}, nil
}

// ContainerCgroup is CgroupOf for a process that an engine says is the first of a
// container. It may have exited, and another process may have its number by now; so
// it has to be in a cgroup that is named after the container's id, as both engines
// name them. ErrExited, wrapped, if it is not.
func (h Host) ContainerCgroup(pid int, id string) (Cgroup, error) {
	at, err := h.Membership(pid)
	if Gone(err) || err == nil && !at.Names(id) {
		return Cgroup{}, fmt.Errorf("process %d is not in container %.12s: %w", pid, id, ErrExited)
	}
	if err != nil {
		return Cgroup{}, fmt.Errorf("read the cgroup of process %d: %w", pid, err)
	}
	return h.CgroupOf(pid)
}

// OpenContainer opens the first process of a container and reads its cgroup.
// ErrExited, wrapped, if the container does not run.
func (h Host) OpenContainer(pid int, id string) (*Process, Cgroup, error) {
	p, err := Open(pid)
	if err != nil {
		return nil, Cgroup{}, err
	}
	cgroup, err := h.ContainerCgroup(pid, id)
	// While the process that was opened runs, nothing else has its number.
	if exited, perr := p.Exited(0); err == nil && exited {
		err = fmt.Errorf("process %d: %w", pid, ErrExited)
	} else if err == nil {
		err = perr
	}
	if err != nil {
		p.Close()
		return nil, Cgroup{}, err
	}
	return p, cgroup, nil
}

// Runs reports whether a process that an engine says is the first of a container is in
// that container and has not exited: the engine notices that later. A process that
// executes another program from a thread, as kollet-start does, runs, though its first
// thread is a zombie for a moment and in no cgroup.
func (h Host) Runs(pid int, id string) bool {
	threads, _ := filepath.Glob(h.ProcessPath(pid, "task/*")) // the pattern is well-formed
	return slices.ContainsFunc(threads, func(thread string) bool {
		at, err := readMembership(filepath.Join(thread, "cgroup"))
		return err == nil && at.Names(id) && !exited(thread)
	})
}

// Path returns the container's path in a hierarchy, "" if it has no cgroup there.
func (c Cgroup) Path(hierarchy string) string { return c.own[hierarchy] }

// Hierarchies returns those in which the container has a cgroup.
func (c Cgroup) Hierarchies() []string { return slices.Sorted(maps.Keys(c.own)) }

// Holds returns the hierarchies, sorted, in which any thread of a process is in
// the container: ending the container ends the process. A zombie thread stays in
// its cgroup until it is reaped, and is ignored.
func (c Cgroup) Holds(pid int) ([]string, error) {
	tasks, err := filepath.Glob(c.host.ProcessPath(pid, "task/*/cgroup"))
	if err != nil || len(tasks) == 0 {
		return nil, err
	}
	seen := map[string]bool{}
	for _, task := range tasks {
		m, err := readMembership(task)
		if Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		names := m.inside(c.own)
		if len(names) > 0 && exited(filepath.Dir(task)) {
			continue
		}
		for _, name := range names {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

// Processes returns every process in the container's cgroup and those below it.
func (c Cgroup) Processes() ([]int, error) {
	pids := map[int]bool{}
	for hierarchy, own := range c.own {
		mount, ok := c.mount(hierarchy)
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

// processesBelow reads the processes of a cgroup and of those below it. The
// directory of a cgroup without children has two links and is not listed: this
// runs while a service is down.
func processesBelow(dir string, pids map[int]bool) error {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	if Gone(err) {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if err := readProcs(filepath.Join(dir, "cgroup.procs"), pids); err != nil || st.Nlink == 2 {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !Gone(err) {
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

// readProcs reads a cgroup.procs file. That of a threaded cgroup cannot be read
// (EOPNOTSUPP, cgroups(7)): its processes are listed in the domain above it.
// ENODEV means that the cgroup was removed meanwhile.
func readProcs(file string, pids map[int]bool) error {
	data, err := os.ReadFile(file)
	if Gone(err) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV) {
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

func (c Cgroup) mount(hierarchy string) (string, bool) {
	for controller := range strings.SplitSeq(hierarchy, ",") {
		if at, ok := c.mounts[controller]; ok {
			return at, true
		}
	}
	return "", false
}

// Move moves all threads of a process into the cgroup with this path in a
// hierarchy, which it creates if needed. It is not an error if the process has exited.
func (c Cgroup) Move(pid int, hierarchy, path string) error {
	mount, ok := c.mount(hierarchy)
	if !ok {
		return fmt.Errorf("cgroup hierarchy %q is not mounted here", hierarchy)
	}
	dir := filepath.Join(mount, path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if strings.Contains(","+hierarchy+",", ",cpuset,") {
		if err := inheritCPUs(mount, dir); err != nil {
			return err
		}
	}
	err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(number(pid)), 0)
	if Gone(err) {
		return nil
	}
	return err
}

// Remove removes the cgroup if no process is left in it. That of another process stays,
// and is harmless. systemd removes its scopes itself: one that loses its cgroup before
// systemd has noticed that it is empty remains, and takes no process.
func (c Cgroup) Remove() {
	for hierarchy, own := range c.own {
		if c.host.SystemdOwns(hierarchy) {
			continue
		}
		if mount, ok := c.mount(hierarchy); ok && own != "/" {
			_ = unix.Rmdir(filepath.Join(mount, own))
		}
	}
}

// inheritCPUs copies the parent's CPUs and memory nodes to a new cpuset of
// cgroup v1, which accepts no process while it is empty (cpuset(7)).
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
		if err := os.WriteFile(filepath.Join(to, file), all, 0); err != nil { //nolint:gosec // both paths are below /sys/fs/cgroup
			return err
		}
	}
	return nil
}
