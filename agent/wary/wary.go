// Package wary opens files that may be something else than they should be. Where a
// container can write, what was put under a name may have been replaced: by a link to a
// file of the host, a FIFO that blocks its reader, a device, a file without end. It may be
// replaced again at any moment. An operator gives a wrong file by mistake.
package wary

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// kinds are what messages call the types of files, inode(7).
var kinds = map[uint32]string{
	unix.S_IFREG:  "a regular file",
	unix.S_IFIFO:  "a FIFO",
	unix.S_IFLNK:  "a symbolic link",
	unix.S_IFDIR:  "a directory",
	unix.S_IFCHR:  "a device",
	unix.S_IFBLK:  "a device",
	unix.S_IFSOCK: "a socket",
}

// KindError means that a name is something else than it should be.
type KindError struct {
	Path       string
	Is, Should uint32 // types, as in a mode
}

func (e *KindError) Error() string {
	return fmt.Sprintf("%s is %s, not %s", e.Path, e.Found(), kinds[e.Should])
}

// Found names the type that was found.
func (e *KindError) Found() string { return kinds[e.Is] }

// SizeError means that a file is larger than it may be.
type SizeError struct {
	Path  string
	Limit int64 // in bytes, a number of MiB
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s is larger than %d MiB", e.Path, e.Limit>>20)
}

// Unfit reports whether a file was not read because it has another type than it should, or
// is too large. Then it is not what was expected there, and reading it again will not help.
func Unfit(err error) bool {
	_, kind := errors.AsType[*KindError](err)
	_, size := errors.AsType[*SizeError](err)
	return kind || size
}

// Open opens what a name in an open directory is, if its type, such as unix.S_IFREG,
// is the given one; otherwise the error is a *KindError. It follows no link, and does
// not block. dir may be unix.AT_FDCWD, then all of the path but its last name is
// trusted.
//
// The type is determined first, with a descriptor that does not open the file
// (O_PATH, open(2)): for a device, to be opened may be an order.
func Open(dir int, name string, flags int, kind uint32) (*os.File, error) {
	handle, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	file := os.NewFile(uintptr(handle), name)
	defer file.Close()
	return Reopen(file, name, flags, kind)
}

// Reopen is Open for a file that was found before, and is held by a descriptor that
// did not open it. Errors name it as given.
func Reopen(handle *os.File, name string, flags int, kind uint32) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(handle.Fd()), &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if is := st.Mode & unix.S_IFMT; is != kind {
		return nil, &KindError{name, is, kind}
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(handle.Fd())), flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // exactly what was looked at, proc_pid_fd(5)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Link returns where a symbolic link leads that was found before, and is held by a
// descriptor. If it is none, the error is a *KindError.
func Link(handle *os.File, name string) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(handle.Fd()), &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	if is := st.Mode & unix.S_IFMT; is != unix.S_IFLNK {
		return "", &KindError{name, is, unix.S_IFLNK}
	}
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(handle.Fd()), "", target)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(target[:n]), nil
}

// Read returns at most limit bytes of a regular file, from its beginning.
func Read(dir int, name string, limit int64) ([]byte, error) {
	f, err := Open(dir, name, unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// ReadFile reads a file in a directory that only the operator or kollet can change, so it
// follows links. It neither waits nor reads without end: unless the file is a regular one,
// the error is a *KindError, and if it has more than limit bytes, a *SizeError.
func ReadFile(path string, limit int64) ([]byte, error) {
	return readIn(unix.AT_FDCWD, path, path, 0, limit)
}

// OpenFile opens a file for reading as ReadFile does.
func OpenFile(path string) (*os.File, error) { return openIn(unix.AT_FDCWD, path, path, 0) }

func openIn(dir int, name, path string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_CLOEXEC|flags, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	handle := os.NewFile(uintptr(fd), path)
	defer handle.Close()
	return Reopen(handle, path, unix.O_RDONLY, unix.S_IFREG)
}

func readIn(dir int, name, path string, flags int, limit int64) ([]byte, error) {
	f, err := openIn(dir, name, path, flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if int64(len(data)) > limit {
		return nil, &SizeError{path, limit}
	}
	return data, err
}

// Check looks at what a path is without opening it. The error is a *KindError if its
// type is not the given one.
func Check(path string, kind uint32) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if is := st.Mode & unix.S_IFMT; is != kind {
		return &KindError{path, is, kind}
	}
	return nil
}
