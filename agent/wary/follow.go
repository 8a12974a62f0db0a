package wary

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many symbolic links a path may have, as for the kernel,
// path_resolution(7).
const mostLinks = 40

// PlantedError means that others than root, or a container, could have put a symbolic link
// where it is.
type PlantedError struct {
	Link  string
	Below string // the directory that containers can write; empty: others than root
}

func (e *PlantedError) Error() string {
	if e.Below != "" {
		return fmt.Sprintf("%s is a symbolic link that a container could have put there, because containers can write to %s; name what it leads to, or keep the link in another directory", e.Link, e.Below)
	}
	return fmt.Sprintf("%s is a symbolic link that others than root could have put there; name what it leads to, or let only root own and write the link and its directory", e.Link)
}

// Place is what a path led to, held open: what is put in the place of names on the way
// does not change it.
type Place struct {
	Root *os.Root // the directory itself, or that of a file
	Name string   // in Root; "." for a directory
	Dir  string   // the path of Root without links, when it was found
}

// Follow finds what a path leads to. It follows a link only if root owns it and its
// directory, to which nobody else can write, nor a container: others could have it lead to a
// file that they may not read themselves. Otherwise the error is a *PlantedError.
func (d Dirs) Follow(path string) (Place, error) {
	at, name, err := d.hold(path)
	if err != nil {
		return Place{}, err
	}
	defer unix.Close(at)
	return placeIn(at, name)
}

// ReadFile reads a file as the package's ReadFile does, but follows links as Follow does.
func (d Dirs) ReadFile(path string, limit int64) ([]byte, error) {
	at, name, err := d.hold(path)
	if _, planted := errors.AsType[*PlantedError](err); planted {
		return nil, err
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(at)
	return readIn(at, name, path, unix.O_NOFOLLOW, limit) // what it led to was no link
}

// hold is Follow, which holds the directory of what it finds. name is "." for a directory.
func (d Dirs) hold(path string) (at int, name string, err error) {
	start := "."
	if filepath.IsAbs(path) {
		start = "/"
	}
	at, err = holdIn(unix.AT_FDCWD, start)
	if err != nil {
		return -1, "", err
	}
	links := 0
	for rest := path; ; {
		name, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if name == "" {
			return at, ".", nil
		}
		next, target, err := d.step(at, name)
		switch {
		case err != nil:
		case next >= 0:
			unix.Close(at)
			at, rest = next, more
			continue
		case target == "" && strings.Trim(more, "/") == "":
			return at, name, nil
		case target == "":
			err = unix.ENOTDIR
		default:
			if links++; links > mostLinks {
				err = unix.ELOOP
			}
		}
		if err == nil && filepath.IsAbs(target) {
			unix.Close(at)
			at, err = holdIn(unix.AT_FDCWD, "/")
		}
		if err != nil {
			unix.Close(at)
			return -1, "", err
		}
		rest = target + "/" + more
	}
}

// step looks at a name in an open directory. It holds a directory, returns where a link leads,
// or neither.
func (d Dirs) step(at int, name string) (dir int, target string, err error) {
	dir, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0) // mounts what is mounted on access
	if err == nil || !errors.Is(err, unix.ENOTDIR) {
		return dir, "", err
	}
	other, err := holdIn(at, name)
	if err != nil {
		return -1, "", err
	}
	defer unix.Close(other)
	var st unix.Stat_t
	if err = unix.Fstat(other, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		target, err = d.trustedTarget(at, other, st, name)
	}
	return -1, target, err
}

// holdIn holds what a name in an open directory is, a link itself.
func holdIn(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// trustedTarget returns where a link in an open directory leads, if only root could have
// put it there.
func (d Dirs) trustedTarget(dir, link int, st unix.Stat_t, name string) (string, error) {
	var of unix.Stat_t
	if err := unix.Fstat(dir, &of); err != nil {
		return "", err
	}
	where, _ := pathOf(dir) // for the message only
	if st.Uid != 0 || of.Uid != 0 || of.Mode&0o022 != 0 {
		return "", &PlantedError{Link: filepath.Join(where, name)}
	}
	if below, err := d.above(dir); err != nil {
		return "", err
	} else if below != "" {
		return "", &PlantedError{filepath.Join(where, name), below}
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
