package wary

import "golang.org/x/sys/unix"

// Dirs are directories of the host to which containers can write, as root if that is what
// runs in them: who owns a file there says nothing. They are known by what they are, because
// a directory may have several paths.
type Dirs []dir

type dir struct {
	path string // for messages
	inode
}

type inode struct{ device, number uint64 }

// DirsOf returns the directories that paths lead to. What does not exist is left out.
func DirsOf(paths ...string) Dirs {
	var all Dirs
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			all = append(all, dir{path, inode{st.Dev, st.Ino}})
		}
	}
	return all
}

// above returns the path of the directory that an open one is, or lies below; empty if there
// is none.
func (d Dirs) above(open int) (string, error) {
	if len(d) == 0 {
		return "", nil
	}
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
