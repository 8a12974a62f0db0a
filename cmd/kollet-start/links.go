package main

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// mostLinks is how many symbolic links a path may have, as for the kernel,
// path_resolution(7).
const mostLinks = 40

// hold finds what a path below root is, and holds it without opening it. Links are
// followed if they belong to root, such as those of an image. A link of another user
// is refused: a service that can write to a volume could otherwise be given a file
// outside of it, such as a socket of the host.
func (a applier) hold(name string) (int, error) {
	at, err := holdIn(unix.AT_FDCWD, a.root)
	links := 0
	for rest := strings.TrimPrefix(name, a.root); err == nil; {
		part, more, _ := strings.Cut(strings.TrimLeft(rest, "/"), "/")
		if part == "" {
			return at, nil
		}
		var next int
		if next, err = holdIn(at, part); err != nil {
			break
		}
		var target string
		if target, err = rootsLink(next); err == nil && target == "" {
			unix.Close(at)
			at, rest = next, more
			continue
		}
		unix.Close(next)
		if links++; links > mostLinks {
			err = unix.ELOOP
		}
		if err == nil && path.IsAbs(target) {
			unix.Close(at)
			at, err = holdIn(unix.AT_FDCWD, a.root)
		}
		rest = target + "/" + more
	}
	if at >= 0 {
		unix.Close(at)
	}
	return -1, failure("open", name, err)
}

// errForeignLink is the error of a link that does not belong to root.
var errForeignLink = errors.New("a symbolic link in it belongs to another user than root")

// rootsLink returns the target of a link that is held; "" if it is no link.
func rootsLink(fd int) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || !isLink(st) {
		return "", err
	}
	if st.Uid != 0 {
		return "", errForeignLink
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", target)
	return string(target[:max(n, 0)]), err
}

// holdIn holds what a name in an open directory is, a link itself.
func holdIn(dir int, name string) (int, error) {
	return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// refuseLinks fails if a path that files are about to be put below goes through a link
// that another user than root owns. It may not exist yet.
func (a applier) refuseLinks(name string) error {
	fd, err := a.hold(name)
	if err == nil {
		unix.Close(fd)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil // what exists of it was looked at
	}
	return err
}
