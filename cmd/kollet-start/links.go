package main

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// mostLinks is how many symbolic links a path may have, as for the kernel,
// path_resolution(7).
const mostLinks = 40

// hold finds what a path below root is, and holds it without opening it. Links are
// followed if they belong to root, such as those of an image. A link of another user
// is refused: a service that can write to a volume could otherwise be given a file
// outside of it, such as a socket of the host. Nothing of kollet's own is held: a file
// that is put there could open the gate.
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
		if a.isOwn(next) {
			err = errOwn
		} else if target, err = rootsLink(next); err == nil && target == "" {
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

// errOwn is the error of a path that leads to, or through, a directory of kollet's own.
var errOwn = errors.New("it leads into " + gate.Home + ", where only kollet puts files")

// isOwn reports whether what is held is kollet's directory in the container, or the gate,
// by whatever name it was found.
func (a applier) isOwn(fd int) bool {
	var is unix.Stat_t
	if unix.Fstat(fd, &is) != nil {
		return false
	}
	for _, dir := range []string{gate.Home, gate.Dir} {
		if own, err := stat(a.path(dir)); err == nil && own.Dev == is.Dev && own.Ino == is.Ino {
			return true
		}
	}
	return false
}

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
// that another user than root owns, or into kollet's own directory. It may not exist yet.
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
