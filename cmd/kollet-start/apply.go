package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// Files by which Kolla's own scripts know what has been done.
const (
	runCommand = "run_command" // the command from config.json
	marker     = "configured"  // exists once the configuration was applied
)

// configure applies config.json below root, once in the life of a container:
// later starts find the marker. It returns false when there is no config.json.
//
// Kolla's own kolla_set_configs, told to copy once, finds the marker too and
// leaves everything as it is, so images of Kolla run unchanged. The order is
// theirs.
func configure(root string, names names) (bool, error) {
	file := path.Join(root, gate.Config, "config.json")
	data, err := readFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := lstat(path.Join(root, marker)); err == nil {
		return true, nil
	}
	c, err := parseConfig(data)
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

// checkOwners finds unknown names before anything is changed.
func (a applier) checkOwners(c config) error {
	for _, rules := range [][]rule{c.directories, c.files, c.copies, c.permissions} {
		for _, r := range rules {
			if r.preserve {
				continue
			}
			if _, _, err := a.names.owner(r.owner); err != nil {
				return r.wrap(fmt.Errorf("owner %s: %w", r.owner, err))
			}
		}
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
		if err := makeDirs(path); err != nil {
			return r.wrap(err)
		}
		a.setOwnerAndMode(path, r)
	}
	return nil
}

func (a applier) makeFiles(c config) error {
	for _, r := range c.files {
		path := a.path(r.path)
		fd, err := open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_NOFOLLOW)
		switch {
		case errors.Is(err, unix.ELOOP):
			return r.wrap(fmt.Errorf("%s is a symbolic link: want a file", path))
		case err != nil:
			return r.wrap(err)
		}
		unix.Close(fd)
		a.setOwnerAndMode(path, r)
	}
	return nil
}

func (a applier) writeRunCommand(c config) error {
	return unlessReadOnly(replaceFile(a.path(runCommand), []byte(c.command), readableByAll))
}

// unlessReadOnly drops the error of a container with a read-only root file
// system: it applies its configuration at every start, to what is mounted
// writable, and no script of Kolla's could run there.
func unlessReadOnly(err error) error {
	if errors.Is(err, unix.EROFS) {
		note("%v; going on", err)
		return nil
	}
	return err
}

func (a applier) setPermissions(c config) error {
	for _, r := range c.permissions {
		paths, err := glob(a.path(r.path))
		if err != nil {
			return r.wrap(err)
		}
		for _, path := range paths {
			a.setOwnerAndMode(path, r)
			if !r.recurse {
				continue
			}
			fd, err := open(path, unix.O_RDONLY|unix.O_DIRECTORY)
			if errors.Is(err, unix.ENOTDIR) {
				continue
			}
			if err != nil {
				return r.wrap(err)
			}
			a.setBelow(fd, path, r)
		}
	}
	return nil
}

// setBelow sets owner and mode of everything in an open directory, which it
// closes. Unlike Kolla it follows no links, and leaves no room for one to be
// slipped in: it may work in a volume that the service that still runs can
// write to, and must not hand it a file outside.
func (a applier) setBelow(dir int, name string, r rule) {
	defer unix.Close(dir)
	names, err := listOpen(dir)
	r.goOn(failure("readdir", name, err))
	for _, n := range names {
		below := path.Join(name, n)
		fd, err := unix.Openat(dir, n, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			r.goOn(failure("open", below, err))
			continue
		}
		a.setOwnerAndMode("/proc/self/fd/"+strconv.Itoa(fd), r) // exactly what was opened, proc(5)
		sub, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err == nil {
			a.setBelow(sub, below, r)
		} else if !errors.Is(err, unix.ENOTDIR) {
			r.goOn(failure("open", below, err))
		}
	}
}

// setOwnerAndMode is not fatal when it fails, as with Kolla: file systems such
// as NFS may refuse it and be right otherwise.
func (a applier) setOwnerAndMode(path string, r rule) {
	uid, gid, err := a.names.owner(r.owner)
	if err == nil {
		err = unix.Chown(path, uid, gid)
	}
	r.goOn(failure("chown", path, err))
	st, err := stat(path)
	if err == nil && r.perm.given && !isLink(st) {
		err = failure("chmod", path, unix.Chmod(path, r.perm.of(isDir(st)))) // after chown, which takes set-id bits away
	}
	r.goOn(err)
}

func (r rule) goOn(err error) {
	if err != nil {
		note("%v; going on", r.wrap(err))
	}
}

// of returns the mode for a file or a directory: who may read a directory may
// also enter it.
func (m mode) of(dir bool) uint32 {
	if dir {
		return m.bits | m.bits&0o444>>2
	}
	return m.bits
}

// mark makes the marker, by mknod(2) as Kolla does: empty, for root alone.
func (a applier) mark(config) error {
	path := a.path(marker)
	return unlessReadOnly(failure("mknod", path, unix.Mknod(path, unix.S_IFREG|0o600, 0)))
}
