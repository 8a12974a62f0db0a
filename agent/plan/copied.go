package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/wary"
)

// copiedFile is the What of a file, a directory or a link that a container copied, or that
// was added to a directory that it copied.
const copiedFile = "copied file"

// copies compares what a container copied with its generation, as the container sees it.
// The container may have put anything in its place.
type copies struct {
	*drifter
	pid   int
	found map[inode]bool // what is where the generation has something
}

type inode struct{ device, number uint64 }

func inodeOf(st unix.Stat_t) inode { return inode{st.Dev, st.Ino} }

func (d *drifter) copies(pid int) {
	c := copies{drifter: d, pid: pid, found: map[inode]bool{}}
	for _, f := range d.service.Files {
		c.compare(f)
	}
	merged := false
	for _, f := range d.service.Files {
		if !f.Part {
			merged = f.Merge
		}
		if f.Directory && !merged { // into others the image put files too
			c.findAdded(f.Dest)
		}
	}
}

func (c copies) differs(dest, format string, args ...any) {
	c.add(copiedFile, dest, "%s in %s %s", printable.Line(dest), c.service.Name, fmt.Sprintf(format, args...))
}

// failed reports why something cannot be compared.
func (c copies) failed(dest string, err error) {
	if other, ok := errors.AsType[*wary.KindError](err); ok {
		c.differs(dest, "was replaced manually: it is %s", other.Found())
		return
	}
	c.differs(dest, "cannot be read: %v", node.WithoutPath(err))
}

func (c copies) compare(f generation.File) {
	flags := unix.O_NOFOLLOW
	if f.Directory {
		flags = 0 // merging follows the links of the image
	}
	handle, err := c.node.Host.HoldInside(c.pid, f.Dest, flags)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		c.differs(f.Dest, "was removed manually")
		return
	}
	var st unix.Stat_t
	if err == nil {
		defer handle.Close()
		err = unix.Fstat(int(handle.Fd()), &st)
	}
	if err != nil {
		c.failed(f.Dest, err)
		return
	}
	c.found[inodeOf(st)] = true
	same, err := sameAs(handle, c.key, f)
	switch {
	case err != nil:
		c.failed(f.Dest, err)
	case !same:
		c.differs(f.Dest, "was changed manually")
	case f.Link == "":
		c.compareMode(st.Mode, f)
	}
}

// mostCopied is more than any config file has, in bytes. No more is read of a copy,
// which may be endless.
const mostCopied = 16 << 20

// sameAs reports whether what is held has the type and the content of a file.
func sameAs(handle *os.File, key generation.Key, f generation.File) (bool, error) {
	switch {
	case f.Link != "":
		target, err := wary.Link(handle, f.Dest)
		return target == f.Link, err
	case f.Directory:
		dir, err := wary.Reopen(handle, f.Dest, unix.O_RDONLY, unix.S_IFDIR)
		if err == nil {
			dir.Close()
		}
		return true, err
	}
	file, err := wary.Reopen(handle, f.Dest, unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return false, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, mostCopied))
	return key.Matches(data, f.SHA256), err
}

// compareMode compares the permission and set-id bits. The owner is a name that means
// something in the container only.
func (c copies) compareMode(mode uint32, f generation.File) {
	const bits = 0o7777
	want, err := strconv.ParseUint(f.Perm, 8, 32)
	if err != nil || c.givenMode(f.Dest) {
		return
	}
	if f.Directory && !f.Preserve {
		want |= want & 0o444 >> 2 // kollet-start lets everyone enter who may read
	}
	if uint64(mode)&bits != want&bits {
		c.differs(f.Dest, "has mode %04o, not %04o", mode&bits, want&bits)
	}
}

// givenMode reports whether a permission of the service may have given a copy another mode.
func (c copies) givenMode(dest string) bool {
	for _, p := range c.service.Permissions {
		if p.Perm == "" || strings.HasSuffix(p.Path, "/") { // directories are made before files are copied
			continue
		}
		pattern := path.Clean(strings.ReplaceAll(p.Path, "[!", "[^"))
		for at := dest; ; at = path.Dir(at) {
			if matches, err := path.Match(pattern, at); matches && err == nil {
				return true
			}
			if !p.Recurse || at == "/" {
				break
			}
		}
	}
	return false
}

const (
	mostNames = 10_000 // of a directory that are looked at
	mostAdded = 10     // of a directory that are named
)

// findAdded finds what the generation does not have in a directory that it has.
func (c copies) findAdded(dir string) {
	handle, err := c.node.Host.HoldInside(c.pid, dir, 0)
	if err != nil {
		return // it was reported
	}
	defer handle.Close()
	open, err := wary.Reopen(handle, dir, unix.O_RDONLY, unix.S_IFDIR)
	if err != nil {
		return
	}
	defer open.Close()
	names, err := open.Readdirnames(mostNames)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed(dir, err)
		return
	}
	names = slices.DeleteFunc(names, func(name string) bool { return c.belongs(open, dir, name) })
	slices.Sort(names)
	for _, name := range names[:min(len(names), mostAdded)] {
		c.differs(path.Join(dir, name), "was added manually")
	}
	if more := len(names) - mostAdded; more > 0 {
		c.add(copiedFile, dir, "%d more files in %s in %s were added manually", more, dir, c.service.Name)
	}
}

// belongs reports whether a name of a directory is of the generation, perhaps by another path,
// or leads to what is mounted.
func (c copies) belongs(open *os.File, dir, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(open.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	if err != nil || c.found[inodeOf(st)] {
		return true // it is gone again, or known
	}
	dest := path.Join(dir, name)
	for _, m := range c.service.Spec.Mounts {
		if target := path.Clean(m.Target); target == dest || strings.HasPrefix(target, dest+"/") {
			return true
		}
	}
	return slices.ContainsFunc(c.service.Files, func(f generation.File) bool { return f.Dest == dest })
}
