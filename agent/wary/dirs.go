package wary

import (
	"slices"

	"golang.org/x/sys/unix"
)

// Dirs are directories of the host to which containers can write, as root if that is what
// runs in them: who owns a file there says nothing. They are known by what they are, because
// a directory may have several paths, and may be mounted at several places.
type Dirs []dir

type dir struct {
	path string // for messages
	inode
	origins []origin // its own, and those of what is mounted below it
}

type inode struct{ device, number uint64 }

// DirsOf returns the directories that paths lead to. What does not exist is left out.
func DirsOf(paths ...string) Dirs {
	table, _ := readMounts() // above fails without it
	var all Dirs
	for _, path := range paths {
		if d, ok := dirOf(path, table); ok {
			all = append(all, d)
		}
	}
	return all
}

func dirOf(path string, table mounts) (dir, bool) {
	open, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return dir{}, false
	}
	defer unix.Close(open)
	var st unix.Stat_t
	if unix.Fstat(open, &st) != nil {
		return dir{}, false
	}
	d := dir{path: path, inode: inode{st.Dev, st.Ino}}
	if own, err := table.originOf(open); err == nil {
		d.origins = append(d.origins, own)
	}
	if at, err := pathOf(open); err == nil {
		d.origins = append(d.origins, table.under(at)...)
	}
	return d, true
}

// above returns the path of the directory that an open one is, or lies below; empty if there
// is none.
func (d Dirs) above(open int) (string, error) {
	if len(d) == 0 {
		return "", nil
	}
	if path, err := d.parent(open); path != "" || err != nil {
		return path, err
	}
	return d.origin(open)
}

// origin is above for a directory that is mounted at another place, too.
func (d Dirs) origin(open int) (string, error) {
	table, err := readMounts()
	if err != nil {
		return "", err
	}
	is, err := table.originOf(open)
	if err != nil {
		return "", err
	}
	for _, known := range d {
		if slices.ContainsFunc(known.origins, is.within) {
			return known.path, nil
		}
	}
	return "", nil
}

// parent is above for one of the directories that the path of the open one leads through.
func (d Dirs) parent(open int) (string, error) {
	at, err := holdIn(open, ".")
	if err != nil {
		return "", err
	}
	defer func() { unix.Close(at) }()
	for before := (inode{}); ; {
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return "", err
		}
		is := inode{st.Dev, st.Ino}
		for _, known := range d {
			if known.inode == is {
				return known.path, nil
			}
		}
		if is == before {
			return "", nil // the root, which is in itself
		}
		up, err := holdIn(at, "..")
		if err != nil {
			return "", err
		}
		unix.Close(at)
		at, before = up, is
	}
}
