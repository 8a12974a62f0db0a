package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// RootsProgram returns the path, without symbolic links, of a program in a process's file
// system. It is an error unless only root, as which kollet runs, can have put the program
// there: the file and all directories above it belong to root, and nobody else can write to
// them. Then nobody else can change it before it is run, either.
func (h Host) RootsProgram(pid int, path string) (string, error) {
	found, err := h.PathInside(pid, path)
	if err != nil {
		return "", err
	}
	root := h.ProcessPath(pid, "root")
	program := strings.TrimPrefix(found, root)
	info, err := os.Lstat(found)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, pathError(err))
	}
	if !filepath.IsAbs(program) || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no program", path)
	}
	for at := program; ; at = filepath.Dir(at) {
		info, err := os.Lstat(root + at) // not joined: without the slash, root is the link to /
		if err != nil {
			return "", fmt.Errorf("%s: %w", path, pathError(err))
		}
		if !writtenByRoot(info) {
			return "", fmt.Errorf("%s does not belong to the image: others than root can write to %s", path, at)
		}
		if at == "/" {
			return program, nil
		}
	}
}

func writtenByRoot(info os.FileInfo) bool {
	file, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(file.Uid) != os.Geteuid() || info.Mode()&os.ModeSymlink != 0 {
		return false
	}
	mode := info.Mode().Perm()
	return mode&0o002 == 0 && (mode&0o020 == 0 || int(file.Gid) == os.Getegid())
}

// pathError leaves out the path of an error, which is below /proc.
func pathError(err error) error {
	if failed, ok := errors.AsType[*os.PathError](err); ok {
		return failed.Err
	}
	return err
}
