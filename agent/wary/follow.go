package wary

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many symbolic links a path may have, as for the kernel,
// path_resolution(7).
const mostLinks = 40

// PlantedError means that others than root could have put a symbolic link where it is.
type PlantedError struct{ Link string }

func (e *PlantedError) Error() string {
	return fmt.Sprintf("%s is a symbolic link that others than root could have put there; name what it leads to, or let only root own and write the link and its directory", e.Link)
}

// Place is what a path led to, held open: what is put in the place of names on the way
// does not change it.
type Place struct {
	Root *os.Root // the directory itself, or that of a file
	Name string   // in Root; "." for a directory
	Dir  string   // the path of Root without links, when it was found
}

// Follow finds what a path leads to. It follows a link only if root owns it and
// its directory, which nobody else can write: others could have it lead to a file that they
// may not read themselves. Otherwise the error is a *PlantedError.
func Follow(path string) (Place, error) {
	start := "."
	if filepath.IsAbs(path) {
		start = "/"
	}
	at, err := holdIn(unix.AT_FDCWD, start)
	if err != nil {
		return Place{}, err
	}
	defer func() { unix.Close(at) }()
	links := 0
	for rest := path; ; {
		name, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			return placeIn(at, ".")
		}
		next, err := holdIn(at, name)
		if err != nil {
			return Place{}, err
		}
		var st unix.Stat_t
		var target string
		if err = unix.Fstat(next, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			target, err = trustedTarget(at, next, st, name)
		}
		if err != nil {
			unix.Close(next)
			return Place{}, err
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			unix.Close(at)
			at, rest = next, more
			continue
		}
		unix.Close(next)
		if target == "" {
			if strings.Trim(more, "/") != "" {
				return Place{}, unix.ENOTDIR
			}
			return placeIn(at, name)
		}
		if links++; links > mostLinks {
			return Place{}, unix.ELOOP
		}
		if filepath.IsAbs(target) {
			name = "/"
		} else {
			name = "."
		}
		from, err := holdIn(at, name)
		if err != nil {
			return Place{}, err
		}
		unix.Close(at)
		at, rest = from, target+"/"+more
	}
}

// holdIn holds what a name in an open directory is, a link itself.
func holdIn(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// trustedTarget returns where a link in an open directory leads, if only root could have
// put it there.
func trustedTarget(dir, link int, st unix.Stat_t, name string) (string, error) {
	var of unix.Stat_t
	if err := unix.Fstat(dir, &of); err != nil {
		return "", err
	}
	if st.Uid != 0 || of.Uid != 0 || of.Mode&0o022 != 0 {
		where, _ := pathOf(dir) // for the message only
		return "", &PlantedError{filepath.Join(where, name)}
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(link, "", target)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(target[:max(n, 0)]), err
}

// placeIn opens a directory that is held.
func placeIn(dir int, name string) (Place, error) {
	where, err := pathOf(dir)
	if err != nil {
		return Place{}, err
	}
	root, err := os.OpenRoot(handle(dir)) // exactly what is held, proc_pid_fd(5)
	if err != nil {
		return Place{}, errors.Unwrap(err)
	}
	return Place{root, name, where}, nil
}

func pathOf(fd int) (string, error) { return os.Readlink(handle(fd)) }

func handle(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
