package main

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// Package os has functions for all of this, but they would make kollet-start 50 kB
// larger.

// failure returns an error that names the operation and the path; nil stays nil.
func failure(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

func stat(path string) (st unix.Stat_t, err error) {
	err = failure("stat", path, unix.Stat(path, &st))
	return st, err
}

// lstat does not follow a symbolic link.
func lstat(path string) (st unix.Stat_t, err error) {
	err = failure("lstat", path, unix.Lstat(path, &st))
	return st, err
}

func isDir(st unix.Stat_t) bool     { return st.Mode&unix.S_IFMT == unix.S_IFDIR }
func isLink(st unix.Stat_t) bool    { return st.Mode&unix.S_IFMT == unix.S_IFLNK }
func isRegular(st unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFREG }

func exists(path string) bool {
	_, err := stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// makeDirs creates a directory and its parents if they are missing.
func makeDirs(dir string) error {
	if st, err := stat(dir); err == nil {
		if !isDir(st) {
			return failure("mkdir", dir, unix.ENOTDIR)
		}
		return nil
	}
	if err := makeDirs(path.Dir(dir)); err != nil {
		return err
	}
	return failure("mkdir", dir, unix.Mkdir(dir, 0o777))
}

func open(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	return fd, failure("open", path, err)
}

// list returns the names in a directory, unsorted.
func list(dir string) ([]string, error) {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	names, err := listOpen(fd)
	return names, failure("readdir", dir, err)
}

func listOpen(fd int) (names []string, err error) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if n <= 0 || err != nil {
			return names, err
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

// replaceFile writes a new file next to name and renames it, on stable storage: the
// marker promises that the configuration is complete even after a power loss. If
// name cannot be replaced, because it is a mount point or in a read-only
// directory, it is overwritten.
func replaceFile(name string, data []byte, finish func(path string) error) error {
	fresh := path.Join(path.Dir(name), ".kollet-new")
	unix.Unlink(fresh) // left by an earlier start that was killed
	err := writeFile(fresh, unix.O_CREAT|unix.O_EXCL, data, finish)
	if err == nil {
		err = failure("rename onto", name, unix.Rename(fresh, name))
		if err == nil {
			return syncDir(path.Dir(name))
		}
	}
	unix.Unlink(fresh)
	if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EROFS) {
		return err
	}
	if !exists(name) {
		return err
	}
	return writeFile(name, unix.O_TRUNC, data, finish)
}

func writeFile(name string, flags int, data []byte, finish func(path string) error) error {
	fd, err := open(name, unix.O_WRONLY|flags)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && err != unix.EINTR {
			return failure("write", name, err)
		}
		data = data[max(n, 0):]
	}
	if err := finish(name); err != nil {
		return err
	}
	return failure("fsync", name, unix.Fsync(fd))
}

func readFile(name string) ([]byte, error) {
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var data []byte
	buffer := make([]byte, 32<<10)
	for {
		n, err := unix.Read(fd, buffer)
		if n == 0 || err != nil && err != unix.EINTR {
			return data, failure("read", name, err)
		}
		data = append(data, buffer[:max(n, 0)]...)
	}
}

func syncDir(dir string) error {
	fd, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return failure("fsync", dir, unix.Fsync(fd))
}

// replaceLink replaces name by a symbolic link.
func replaceLink(target, name string) error {
	fresh := path.Join(path.Dir(name), ".kollet-new")
	unix.Unlink(fresh)
	if err := unix.Symlink(target, fresh); err != nil {
		return failure("symlink", fresh, err)
	}
	return failure("rename onto", name, unix.Rename(fresh, name))
}
