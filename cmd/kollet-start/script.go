package main

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// script is a Python script, with how execve(2) starts it: the interpreter, and
// the words of its command line before and after the script's path.
type script struct {
	interpreter   string // its path
	path          string
	before, after []string
	renamed       bool // the process is named after the script, not after the interpreter
}

// words is the command line, with another path in place of the script's.
func (s script) words(path string) []string { return slices.Concat(s.before, []string{path}, s.after) }

// scriptOf finds the script and the interpreter that a program means. It returns
// an error for anything that is not clearly a Python script: another program would
// not wait at the gate. It looks for files as the calling thread's user.
func scriptOf(program string, argv, env []string) (script, error) {
	head, err := headOf(program)
	if err != nil {
		return script{}, err
	}
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	switch {
	case isScript:
		line, _, _ = bytes.Cut(line, []byte("\n"))
		return shebang(strings.TrimSpace(string(line)), program, argv[1:], env)
	case isPython(program) && isELF(head):
		return argument(program, argv)
	}
	return script{}, fmt.Errorf("%s is not a Python script", program)
}

// shebang reads the first line of a script as the kernel does: an interpreter and
// at most one argument, which is everything that follows.
func shebang(line, program string, args, env []string) (script, error) {
	interpreter, argument := line, ""
	if i := strings.IndexAny(line, " \t"); i >= 0 {
		interpreter, argument = line[:i], strings.TrimSpace(line[i:])
	}
	s := script{interpreter: interpreter, path: program, before: []string{interpreter}, after: args, renamed: true}
	switch {
	case isPython(interpreter) && isOptions(argument):
		if argument != "" {
			s.before = append(s.before, argument)
		}
	case path.Base(interpreter) == "env" && isPython(argument) && !strings.Contains(argument, "/"):
		found, err := search(argument, env)
		if err != nil {
			return script{}, fmt.Errorf("%s: %w", argument, err)
		}
		s.interpreter, s.before, s.renamed = found, []string{argument}, false
	default:
		return script{}, fmt.Errorf("%s starts with #!%s, which is not Python with simple options", program, line)
	}
	if head, err := headOf(s.interpreter); err != nil || !isELF(head) {
		return script{}, fmt.Errorf("%s is not the interpreter itself", s.interpreter)
	}
	return s, nil
}

// argument finds the script among the arguments of the interpreter.
func argument(program string, argv []string) (script, error) {
	for i, word := range argv[1:] {
		if strings.HasPrefix(word, "-") && isOptions(word) {
			continue
		}
		head, err := headOf(word)
		if err != nil || bytes.HasPrefix(head, []byte("PK")) { // Python also runs directories and archives
			break
		}
		return script{interpreter: program, path: word, before: argv[:i+1], after: argv[i+2:]}, nil
	}
	return script{}, errors.New("the command names no script")
}

// isPython reports whether a program is named like an interpreter of Python 3.
func isPython(program string) bool {
	version, ok := strings.CutPrefix(path.Base(program), "python")
	if !ok {
		return false
	}
	minor, ok := strings.CutPrefix(version, "3.")
	return version == "" || version == "3" || ok && minor != "" && strings.Trim(minor, "0123456789") == ""
}

// isOptions reports whether a word is empty or has options that take no value and
// do not change what is run, python(1). Without site (-S) or with a module (-m)
// more would differ than preload.py reproduces.
func isOptions(word string) bool {
	letters, ok := strings.CutPrefix(word, "-")
	return word == "" || ok && letters != "" && strings.Trim(letters, "bBdEIOPqsuv") == ""
}

func isELF(head []byte) bool { return bytes.HasPrefix(head, []byte("\x7fELF")) }

// headOf reads as much of a file as the kernel does to recognise it.
func headOf(name string) ([]byte, error) {
	st, err := stat(name)
	if err == nil && !isRegular(st) {
		err = fmt.Errorf("%s is not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	fd, err := open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	head := make([]byte, 256) // BINPRM_BUF_SIZE
	n, err := unix.Pread(fd, head, 0)
	return head[:max(n, 0)], failure("read", name, err)
}

// padded makes an absolute path longer, without another meaning.
func padded(name string, length int) string {
	return strings.Repeat("/", max(0, length-len(name))) + name
}
