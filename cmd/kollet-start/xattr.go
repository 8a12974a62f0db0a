package main

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// copyAttributes copies extended attributes, xattr(7): access control lists,
// capabilities, and those of users. Those that cannot be copied are left out, as Kolla
// does: a file system may not have them, and a security module may forbid them.
func copyAttributes(from, to string) error {
	names, err := readAttribute(func(buffer []byte) (int, error) { return unix.Listxattr(from, buffer) })
	if err != nil {
		return unlessUnsupported(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		if name == "" {
			continue
		}
		value, err := readAttribute(func(buffer []byte) (int, error) { return unix.Getxattr(from, name, buffer) })
		if err == nil {
			err = unix.Setxattr(to, name, value, 0)
		}
		if err := unlessUnsupported(err); err != nil {
			return err
		}
	}
	return nil
}

func unlessUnsupported(err error) error {
	if slices.ContainsFunc([]error{unix.ENOTSUP, unix.ENODATA, unix.EINVAL, unix.EPERM, unix.EACCES, unix.EROFS}, func(known error) bool { return errors.Is(err, known) }) {
		return nil
	}
	return err
}

// readAttribute calls read with a buffer that is large enough.
func readAttribute(read func([]byte) (int, error)) ([]byte, error) {
	for size := 1 << 10; ; size *= 4 {
		buffer := make([]byte, size)
		n, err := read(buffer)
		if errors.Is(err, unix.ERANGE) && size < 64<<10 { // XATTR_SIZE_MAX and XATTR_LIST_MAX
			continue
		}
		return buffer[:max(n, 0)], err
	}
}
