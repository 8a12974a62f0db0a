package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// defaultPath is the PATH that engines set if the image sets none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// findProgram returns the path that execvp(3) would run, and checks as the user
// that execve(2) will find everything that it needs: the container should fail
// now, and not after its gate has opened.
func findProgram(name string, user account, env []string) (path string, err error) {
	err = as(user, func(become func() error) error {
		if err := become(); err != nil {
			return exit(gate.ExitUser, err)
		}
		if path, err = search(name, env); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := loadable(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	return path, err
}

func search(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	dirs, ok := lookup(env, "PATH")
	if !ok {
		dirs = defaultPath
	}
	missing := exit(gate.ExitProgram, fmt.Errorf("no such file in PATH %s", dirs))
	for dir := range strings.SplitSeq(dirs, ":") {
		if dir == "" {
			dir = "."
		}
		path := dir + "/" + name
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if exitCode(err) == gate.ExitExec {
			missing = err // it exists: a better reason
		}
	}
	return "", missing
}

// executable asks the kernel, which also considers access control lists.
func executable(path string) error {
	st, err := stat(path)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR):
		return exit(gate.ExitProgram, errors.New("no such file"))
	case err != nil:
		return exit(gate.ExitExec, bare(err))
	case !isRegular(st):
		return exit(gate.ExitExec, errors.New("not a regular file"))
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return exit(gate.ExitExec, fmt.Errorf("not executable by uid %d", unix.Getuid()))
	}
	return nil
}

// bare removes the path from an error whose message names it already.
func bare(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// loadable looks for the interpreter of a program, up to four levels deep, as
// execve(2) does.
func loadable(path string) error {
	for range 4 {
		interpreter, err := interpreterOf(path)
		if err != nil {
			return err
		}
		if interpreter == "" {
			return nil
		}
		if err := executable(interpreter); err != nil {
			return fmt.Errorf("interpreter %s: %w", interpreter, err)
		}
		path = interpreter
	}
	return nil
}

// interpreterOf returns "" for a program that needs none or cannot be read: a
// program need not be readable to run.
func interpreterOf(path string) (string, error) {
	fd, err := open(path, unix.O_RDONLY)
	if err != nil {
		return "", nil
	}
	defer unix.Close(fd)
	head := make([]byte, 256) // the kernel's BINPRM_BUF_SIZE
	n, _ := unix.Pread(fd, head, 0)
	head = head[:max(n, 0)]
	switch {
	case bytes.HasPrefix(head, []byte("#!")):
		line, _, _ := bytes.Cut(head[2:], []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) == 0 {
			return "", exit(gate.ExitExec, errors.New("the first line names no interpreter"))
		}
		return words[0], nil
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return elfInterpreter(fd, head), nil
	case !bytes.Contains(head, []byte{0}): // binfmt_misc may run other programs, but no text
		return "", exit(gate.ExitExec, errors.New("neither a program nor a script with a #! line"))
	}
	return "", nil
}

// elfInterpreter returns the path in the PT_INTERP segment of a 64-bit
// little-endian program, elf(5). Package debug/elf would double the size of
// kollet-start.
func elfInterpreter(fd int, head []byte) string {
	const (
		class64, littleEndian    = 2, 1
		headerSize, pathMax      = 64, 4096
		segmentSize, typeInterp  = 56, 3
		atOffset, atSize, atMany = 8, 32, 56
	)
	if len(head) < headerSize || head[4] != class64 || head[5] != littleEndian {
		return ""
	}
	le := binary.LittleEndian
	table, count := le.Uint64(head[32:]), le.Uint16(head[atMany:])
	for i := range uint64(count) {
		var segment [segmentSize]byte
		if n, _ := unix.Pread(fd, segment[:], int64(table+i*segmentSize)); n < len(segment) {
			return ""
		}
		size := le.Uint64(segment[atSize:])
		if le.Uint32(segment[:]) != typeInterp || size == 0 || size > pathMax {
			continue
		}
		path := make([]byte, size)
		if n, _ := unix.Pread(fd, path, int64(le.Uint64(segment[atOffset:]))); n < len(path) {
			return ""
		}
		return string(bytes.TrimRight(path, "\x00"))
	}
	return ""
}
