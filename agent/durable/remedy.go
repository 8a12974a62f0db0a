package durable

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// remedies say what to do about an error of the file system that holds kollet's state.
var remedies = []struct {
	errno  syscall.Errno
	remedy string
}{
	{unix.ENOSPC, "free space with `kollet gc`, or by removing files that are not kollet's"},
	{unix.EDQUOT, "free space with `kollet gc`, or by removing files that are not kollet's"},
	{unix.EROFS, "make its file system writable; the kernel's log says why if it is not meant to be read-only"},
	{unix.EIO, "its disk may be failing: look at the kernel's log"},
	{unix.EACCES, "run kollet as root"},
	{unix.EPERM, "run kollet as root"},
	{unix.EMFILE, "allow kollet more open files (`ulimit -n`, or LimitNOFILE= of its unit)"},
	{unix.ENFILE, "allow the machine more open files (sysctl fs.file-max)"},
	{unix.ENOTDIR, "move away what is in the place of a directory"},
	{unix.EISDIR, "move away the directory that is in the place of a file"},
}

// Explain adds to an error what to do about it, if that is known.
func Explain(err error) error {
	for _, r := range remedies {
		if errors.Is(err, r.errno) {
			return fmt.Errorf("%w; %s", err, r.remedy)
		}
	}
	return err
}
