package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	at, err := h.resolve("self", filepath.Clean(path))
	if err != nil {
		err = fmt.Errorf("find the mount of %s: %w", path, err)
	}
	return at, err
}

// resolve returns the mount to which a path of a process leads, from one mount to the next as
// the kernel does: a mount below a directory on which another one was mounted later is hidden.
func (h Host) resolve(process, path string) (mountinfo.Info, error) {
	all, err := h.mounts(process, mountinfo.ParentsFilter(path))
	if err != nil {
		return mountinfo.Info{}, err
	}
	const outside = 0 // the mount of which the kernel shows only what is below the process's root
	within := map[int][]*mountinfo.Info{}
	ids := map[int]bool{}
	for _, m := range all {
		ids[m.ID] = true
	}
	for _, m := range slices.Backward(all) { // of two at one place, the later one counts
		parent := m.Parent
		if parent == m.ID || !ids[parent] {
			parent = outside
		}
		within[parent] = append(within[parent], m)
	}
	var at mountinfo.Info
	for next := within[outside]; len(next) > 0; next = within[at.ID] {
		delete(within, at.ID)
		at = *slices.MinFunc(next, func(a, b *mountinfo.Info) int { return len(a.Mountpoint) - len(b.Mountpoint) })
	}
	return at, nil
}

// Origin is a directory, or a file, by its file system's device and its path in there, which are the same in
// all mount namespaces.
type Origin struct {
	Major, Minor int
	Path         string // empty: none
}

// OriginOf returns the origin of a directory or a file, whose path is absolute and has no symbolic links.
func (h Host) OriginOf(path string) (Origin, error) {
	m, err := h.mountOf(path)
	if err != nil || m.Mountpoint == "" {
		return Origin{}, err
	}
	below, err := filepath.Rel(m.Mountpoint, path)
	return Origin{m.Major, m.Minor, filepath.Join(m.Root, below)}, err
}

// MountedAt returns the directory or file that a process has mounted at target, the zero Origin if none.
// It looks at nothing in the process's file system, where a look may never end.
// ErrExited, wrapped, if the process has exited.
func (h Host) MountedAt(pid int, target string) (Origin, error) {
	at, err := h.resolve(number(pid), target)
	if Gone(err) || errors.Is(err, unix.EINVAL) { // EINVAL: a zombie has no mounts, fs/proc_namespace.c in the kernel
		err = ErrExited
	}
	if err != nil {
		return Origin{}, fmt.Errorf("read the mounts of process %d: %w", pid, err)
	}
	if at.Mountpoint != target {
		return Origin{}, nil
	}
	return Origin{at.Major, at.Minor, at.Root}, nil
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
	table, err := shortLines(f)
	if err != nil {
		return nil, err
	}
	all, err := mountinfo.GetMountsFromReader(table, filter)
	// The kernel writes no other mount point, but the parser takes one for it.
	return slices.DeleteFunc(all, func(m *mountinfo.Info) bool { return !filepath.IsAbs(m.Mountpoint) }), err
}

// shortLines leaves out lines that a bufio.Scanner would refuse. A user can move what he has
// mounted into directories so deep that its line is that long; nobody looks for it there.
func shortLines(in io.Reader) (*bytes.Buffer, error) {
	var out bytes.Buffer
	lines := bufio.NewReaderSize(in, bufio.MaxScanTokenSize)
	for tooLong := false; ; {
		line, more, err := lines.ReadLine()
		if err == io.EOF {
			return &out, nil
		}
		if err != nil {
			return nil, err
		}
		if !more && !tooLong {
			out.Write(line)
			out.WriteByte('\n')
		}
		tooLong = more
	}
}
