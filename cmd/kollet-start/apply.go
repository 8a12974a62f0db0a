package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// Files that tell Kolla's own scripts what has been done.
const (
	runCommand = "run_command" // the command of the configuration
	marker     = "configured"  // exists once the configuration was applied
)

// configure applies the configuration below root once for each container: later starts
// find the marker. It returns false if there is no configuration.
//
// Kolla's own kolla_set_configs finds the marker too when it is told to copy once,
// and changes nothing, so Kolla's images run unchanged. The order is Kolla's.
func configure(root string, names names) (bool, error) {
	file, parse := path.Join(root, gate.Config, "config.yaml"), parseYAML // Kolla prefers it
	if !exists(file) {
		file, parse = path.Join(root, gate.Config, "config.json"), parseConfig
	}
	if !exists(file) {
		return false, nil
	}
	if _, err := lstat(path.Join(root, marker)); err == nil {
		return true, nil
	}
	data, err := readFile(file)
	if err != nil {
		return false, err
	}
	c, err := parse(data)
	if err != nil {
		return false, fmt.Errorf("%s: %w", file, err)
	}
	a := applier{root: root, names: names, mounts: readMounts()}
	for _, step := range []func(config) error{
		a.checkOwners,
		a.makeDirectories,
		a.makeFiles,
		a.saveDefaults,
		a.copyAll,
		a.writeRunCommand,
		a.setPermissions,
		a.trustAuthorities,
		a.mark,
	} {
		if err := step(c); err != nil {
			return false, fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return true, nil
}

// applier applies a configuration below root, which in a container is "/".
type applier struct {
	root   string
	names  names
	mounts mounts
}

func (a applier) path(p string) string { return path.Join(a.root, p) }

// inside returns the path that a path below root has in the container.
func (a applier) inside(p string) string { return path.Join("/", strings.TrimPrefix(p, a.root)) }

// checkOwners finds unknown names before anything is changed.
func (a applier) checkOwners(c config) error {
	for _, rules := range [][]rule{c.directories, c.files, c.copies, c.permissions} {
		for _, r := range rules {
			if r.optional {
				if sources, err := a.glob(r.source); err == nil && len(sources) == 0 {
					continue // Kolla does not look at its owner either
				}
			}
			if err := a.checkOwner(r); err != nil {
				return r.wrap(err)
			}
		}
	}
	return nil
}

func (a applier) checkOwner(r rule) error {
	if r.preserve {
		return nil
	}
	if _, _, err := a.names.owner(r.owner); err != nil {
		return fmt.Errorf("owner %s: %w", r.owner, err)
	}
	return nil
}

func (r rule) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", r.where, err)
}

func (a applier) makeDirectories(c config) error {
	for _, r := range c.directories {
		path := a.path(r.path)
		if err := a.refuseLinks(path); err != nil {
			return r.wrap(err)
		}
		if err := makeDirs(path); err != nil {
			return r.wrap(err)
		}
		a.setOwnerAndMode(path, r)
	}
	return nil
}

func (a applier) makeFiles(c config) error {
	for _, r := range c.files {
		if err := a.refuseLinks(a.path(path.Dir(r.path))); err != nil {
			return r.wrap(err)
		}
		path := a.path(r.path)
		if err := makeFile(path); err != nil {
			return r.wrap(err)
		}
		a.setOwnerAndMode(path, r)
	}
	return nil
}

// makeFile creates an empty file if there is none. What exists is not opened: a FIFO
// would wait for its other end.
func makeFile(path string) error {
	st, err := lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		fd, err := open(path, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
		if err == nil {
			unix.Close(fd)
		}
		return err
	case err != nil:
		return err
	case isLink(st):
		return fmt.Errorf("%s is a symbolic link; expected a file", path)
	case isDir(st):
		return fmt.Errorf("%s is a directory; expected a file", path)
	}
	return nil
}

func (a applier) writeRunCommand(c config) error {
	return unlessReadOnly(replaceFile(a.path(runCommand), []byte(c.command), readableByAll))
}

// unlessReadOnly drops the error of a read-only root file system. Such a container
// applies its configuration at every start, to its writable mounts, and Kolla's
// scripts could not run in it.
func unlessReadOnly(err error) error {
	if errors.Is(err, unix.EROFS) {
		note("%v; continuing", err)
		return nil
	}
	return err
}

func (a applier) setPermissions(c config) error {
	for _, r := range c.permissions {
		paths, err := a.glob(r.path)
		if err != nil {
			return r.wrap(err)
		}
		for _, path := range paths {
			held, err := a.hold(path)
			if err != nil {
				r.noteError(err)
				continue
			}
			a.setHeld(held, path, r)
			fd, err := -1, error(unix.ENOTDIR)
			if r.recurse {
				fd, err = unix.Openat(held, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			}
			unix.Close(held)
			if err == nil {
				a.setBelow(fd, path, r)
			} else if !errors.Is(err, unix.ENOTDIR) {
				return r.wrap(failure("open", path, err))
			}
		}
	}
	return nil
}

// setBelow sets owner and mode of everything in an open directory, which it
// closes. Unlike Kolla it follows no links, not even one that appears meanwhile:
// the running service may be able to write to this volume, and must not be given
// a file outside of it.
func (a applier) setBelow(dir int, name string, r rule) {
	defer unix.Close(dir)
	names, err := listOpen(dir)
	r.noteError(failure("readdir", name, err))
	for _, n := range names {
		below := path.Join(name, n)
		fd, err := unix.Openat(dir, n, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			r.noteError(failure("open", below, err))
			continue
		}
		if a.isOwn(fd) {
			unix.Close(fd)
			continue
		}
		if !r.excludes(a.inside(below)) {
			a.setHeld(fd, below, r)
		}
		sub, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err == nil {
			a.setBelow(sub, below, r)
		} else if !errors.Is(err, unix.ENOTDIR) {
			r.noteError(failure("open", below, err))
		}
	}
}

// setOwnerAndMode continues if it fails, as Kolla does: file systems such as NFS
// may not support it.
func (a applier) setOwnerAndMode(path string, r rule) {
	fd, err := a.hold(path)
	if err != nil {
		r.noteError(err)
		return
	}
	defer unix.Close(fd)
	a.setHeld(fd, path, r)
}

// setHeld sets owner and mode of what a descriptor holds. name is for messages.
func (a applier) setHeld(fd int, name string, r rule) {
	exact := "/proc/self/fd/" + strconv.Itoa(fd) // exactly what is held, proc(5)
	uid, gid, err := a.names.owner(r.owner)
	if err == nil {
		err = unix.Chown(exact, uid, gid)
	}
	r.noteError(failure("chown", name, err))
	var st unix.Stat_t
	err = failure("stat", name, unix.Fstat(fd, &st))
	if err == nil && r.perm.given && !isLink(st) {
		err = failure("chmod", name, unix.Chmod(exact, r.perm.of(isDir(st)))) // after chown, which takes set-id bits away
	}
	r.noteError(err)
}

// noteError reports an error that does not stop the configuration.
func (r rule) noteError(err error) {
	if err != nil {
		note("%v; continuing", r.wrap(err))
	}
}

// of returns the mode for a file or a directory: permission to read a directory
// includes permission to enter it.
func (m mode) of(dir bool) uint32 {
	if dir {
		return m.bits | m.bits&0o444>>2
	}
	return m.bits
}

// mark creates the marker as Kolla does: with mknod(2), empty, readable by root
// only.
func (a applier) mark(config) error {
	path := a.path(marker)
	return unlessReadOnly(failure("mknod", path, unix.Mknod(path, unix.S_IFREG|0o600, 0)))
}
