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
	mounts, err := h.mounts("self", mountinfo.ParentsFilter(filepath.Clean(path)))
	if err != nil {
		return Mount{}, fmt.Errorf("find the mount of %s: %w", path, err)
	}
	var at Mount
	for _, m := range mounts {
		if len(m.Mountpoint) < len(at.Point) {
			continue
		}
		at = Mount{Point: m.Mountpoint}
		for option := range strings.FieldsSeq(m.Optional) {
			at.Shared = at.Shared || strings.HasPrefix(option, "shared:")
			at.Slave = at.Slave || strings.HasPrefix(option, "master:")
		}
	}
	return at, nil
}

// MountRoot returns which directory of its file system a process has mounted at
// target, "" if none. ErrExited, wrapped, if the process has exited.
func (h Host) MountRoot(pid int, target string) (string, error) {
	root := ""
	_, err := h.mounts(number(pid), func(m *mountinfo.Info) (skip, stop bool) {
		if m.Mountpoint == target {
			root = m.Root // the last one is on top
		}
		return true, false
	})
	if Gone(err) || errors.Is(err, unix.EINVAL) { // EINVAL: a zombie has no mounts, fs/proc_namespace.c in the kernel
		err = ErrExited
	}
	if err != nil {
		return "", fmt.Errorf("read the mounts of process %d: %w", pid, err)
	}
	return root, nil
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
