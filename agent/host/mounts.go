package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mount is a mount point and its propagation, see mount_namespaces(7).
type Mount struct {
	Point  string
	Shared bool // mounts below it reach its peers
	Slave  bool // mounts below its peers reach it
}

// MountOf finds the mount that a path is on, of several on top of each other the
// upper one. The path is absolute and has no symbolic links.
func (h Host) MountOf(path string) (Mount, error) {
	m, err := h.mountOf(path)
	if err != nil {
		return Mount{}, err
	}
	at := Mount{Point: m.Mountpoint}
	for option := range strings.FieldsSeq(m.Optional) {
		at.Shared = at.Shared || strings.HasPrefix(option, "shared:")
		at.Slave = at.Slave || strings.HasPrefix(option, "master:")
	}
	return at, nil
}

// mountOf returns the zero mount if there is none.
func (h Host) mountOf(path string) (mountinfo.Info, error) {
	var at mountinfo.Info
	mounts, err := h.mounts("self", mountinfo.ParentsFilter(filepath.Clean(path)))
	if err != nil {
		return at, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	for _, m := range mounts {
		if len(m.Mountpoint) >= len(at.Mountpoint) {
			at = *m
		}
	}
	return at, nil
}

// Origin is a directory by its file system's device and its path in there, which are the same in
// all mount namespaces.
type Origin struct {
	Major, Minor int
	Path         string // empty: no directory
}

// OriginOf returns the origin of a directory, whose path is absolute and has no symbolic links.
func (h Host) OriginOf(path string) (Origin, error) {
	m, err := h.mountOf(path)
	if err != nil || m.Mountpoint == "" {
		return Origin{}, err
	}
	below, err := filepath.Rel(m.Mountpoint, path)
	return Origin{m.Major, m.Minor, filepath.Join(m.Root, below)}, err
}

// MountedAt returns the directory that a process has mounted at target, the zero Origin if none.
// It looks at nothing in the process's file system, where a look may never end.
// ErrExited, wrapped, if the process has exited.
func (h Host) MountedAt(pid int, target string) (Origin, error) {
	var at Origin
	_, err := h.mounts(number(pid), func(m *mountinfo.Info) (skip, stop bool) {
		if m.Mountpoint == target {
			at = Origin{m.Major, m.Minor, m.Root} // the last one is on top
		}
		return true, false
	})
	if Gone(err) || errors.Is(err, unix.EINVAL) { // EINVAL: a zombie has no mounts, fs/proc_namespace.c in the kernel
		err = ErrExited
	}
	if err != nil {
		return Origin{}, fmt.Errorf("read the mounts of process %d: %w", pid, err)
	}
	return at, nil
}

// hierarchies returns where each cgroup hierarchy is mounted: by controller, by
// "name=systemd" and the like, and by "" for the unified one.
func (h Host) hierarchies() (map[string]string, error) {
	mounts, err := h.mounts("self", mountinfo.FSTypeFilter("cgroup", "cgroup2"))
	if err != nil {
		return nil, fmt.Errorf("find the cgroup hierarchies: %w", err)
	}
	at := map[string]string{}
	for _, m := range mounts {
		switch {
		case m.Root != "/": // part of a hierarchy
		case m.FSType == "cgroup2":
			at[""] = m.Mountpoint
		default:
			for option := range strings.SplitSeq(m.VFSOptions, ",") {
				at[option] = m.Mountpoint
			}
		}
	}
	return at, nil
}

// mounts reads the mount table of a process, a number or "self".
func (h Host) mounts(process string, filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	f, err := os.Open(filepath.Join(h.Proc, process, "mountinfo"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return mountinfo.GetMountsFromReader(f, filter)
}
