package main

import (
	_ "embed"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// preloadProgram is what the service's interpreter runs until the gate is open.
//
//go:embed preload.py
var preloadProgram []byte

// preloadLimit bounds the imports: then the service is started without them.
const preloadLimit = 60 * time.Second

// preload becomes the interpreter of a Python service, as the user, with
// preloadProgram, which imports the service's modules and then waits at the gate
// in kollet-start's place. It returns only if it cannot, and then has changed
// nothing.
//
// The user has no access to the gate directory, so the interpreter is given it
// and the FIFO as open files. A reporter, which stays root, creates the file that
// says that the container is ready.
func preload(c command, user account, modules []string) error {
	return as(user, func(become func() error) error {
		p := preloading{command: c, dir: gate.Dir, start: gate.Start, modules: modules}
		return p.run(become)
	})
}

// command is what kollet-start becomes.
type command struct {
	program   string // its path
	argv, env []string
}

type preloading struct {
	command    command
	dir, start string // the gate directory, and kollet-start
	modules    []string

	script   script
	gate     int // its directory
	fifo     int
	pipe     int // to the reporter
	reporter int // its process id
	open     []int
}

func (p *preloading) run(become func() error) error {
	defer p.close()
	for _, step := range []func() error{p.openGate, p.startReporter, become, p.findScript} {
		if err := step(); err != nil {
			return err
		}
	}
	return p.execute()
}

func (p *preloading) openGate() (err error) {
	if p.gate, err = open(p.dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return err
	}
	p.open = append(p.open, p.gate)
	// For reading and writing, as in waitOpen.
	if p.fifo, err = open(path.Join(p.dir, gate.FileFIFO), unix.O_RDWR|unix.O_NONBLOCK); err != nil {
		return err
	}
	p.open = append(p.open, p.fifo)
	return nil
}

// flagReport makes kollet-start the reporter: it creates the file that says that
// the container is ready once its standard input says so.
const flagReport = "--report-ready"

// startReporter starts it before this thread becomes the user. The interpreter
// inherits it as a child.
func (p *preloading) startReporter() error {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("create a pipe: %w", err)
	}
	p.pipe = ends[1]
	p.open = append(p.open, p.pipe)
	defer unix.Close(ends[0])
	pid, err := syscall.ForkExec(p.start, []string{p.start, flagReport}, &syscall.ProcAttr{Files: []uintptr{uintptr(ends[0]), 1, 2}}) //nolint:gosec // kollet-start itself
	if err != nil {
		return fmt.Errorf("start the reporter: %w", err)
	}
	p.reporter = pid
	return nil
}

// reportReady is the reporter. The other end of the pipe is closed without a word
// if there is nothing to report.
func reportReady(dir string, from int) error {
	var word [8]byte
	for {
		n, err := unix.Read(from, word[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return nil
		}
		return declareReady(dir)
	}
}

func (p *preloading) findScript() (err error) {
	p.script, err = scriptOf(p.command.program, p.command.argv, p.command.env)
	return err
}

// execute runs the interpreter with the program instead of the script. Only this
// thread blocks the signals, and the program unblocks them when it is able to
// handle them.
func (p *preloading) execute() error {
	self, err := memoryFile()
	if err != nil {
		return err
	}
	p.open = append(p.open, self)
	// The program later writes the script's path over this one.
	name := "/proc/self/fd/" + strconv.Itoa(self)
	if short := "/dev/fd/" + strconv.Itoa(self); len(p.script.path) < len(name) && exists(short) {
		name = short
	}
	name = padded(name, len(p.script.path))
	var blocked []int
	for _, s := range stopSignals {
		if block(s) {
			blocked = append(blocked, int(s))
		}
	}
	if err := writeAll(self, p.source(self, len(name), blocked)); err != nil {
		return err
	}
	for _, fd := range []int{p.gate, p.fifo, p.pipe, self} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep a file open: %w", err)
		}
	}
	return execute(p.script.interpreter, p.script.words(name), p.command.env)
}

// close undoes what was prepared. The thread ends, with its mask and its user.
func (p *preloading) close() {
	for _, fd := range p.open {
		unix.Close(fd)
	}
	if p.reporter != 0 {
		wait(p.reporter)
	}
}

// block blocks a signal in this thread, and reports whether it was not.
func block(s syscall.Signal) bool {
	var set, old unix.Sigset_t
	word, bit := (int(s)-1)/64, uint64(1)<<((int(s)-1)%64)
	set.Val[word] = bit
	return unix.PthreadSigmask(unix.SIG_BLOCK, &set, &old) == nil && old.Val[word]&bit == 0
}

// memoryFile returns a file that only this process has. Kernels before 6.3 do not
// know MFD_NOEXEC_SEAL, which others may insist on, sysctl vm.memfd_noexec.
func memoryFile() (int, error) {
	const name = "kollet-start"
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	}
	if err != nil {
		return 0, fmt.Errorf("create a file in memory: %w", err)
	}
	return fd, nil
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil {
			return fmt.Errorf("write a file in memory: %w", err)
		}
		data = data[n:]
	}
	return nil
}

// source is the program with its settings: one statement, which leaves no names
// in the script's namespace.
func (p *preloading) source(self, length int, blocked []int) []byte {
	comm := ""
	if p.script.renamed {
		comm = path.Base(p.command.program)
	}
	var signals []int
	for _, s := range stopSignals {
		signals = append(signals, int(s))
	}
	var names []string
	for _, m := range p.modules {
		names = append(names, pyString(m))
	}
	var argv []string
	for _, word := range p.command.argv {
		argv = append(argv, pyBytes(word))
	}
	settings := []struct{ key, value string }{
		{"script", pyBytes(p.script.path)},
		{"cmdline", pyBytes(strings.Join(p.script.words(padded(p.script.path, length)), "\x00") + "\x00")},
		{"comm", pyBytes(comm)},
		{"program", pyBytes(p.command.program)}, // for the plain start
		{"argv", pyList(argv)},
		{"modules", pyList(names)},
		{"limit", strconv.Itoa(int(preloadLimit / time.Second))},
		{"signals", pyInts(signals)},
		{"blocked", pyInts(blocked)},
		{"open", pyString(gate.FileOpen)},
		{"gate", strconv.Itoa(p.gate)},
		{"fifo", strconv.Itoa(p.fifo)},
		{"reporter", strconv.Itoa(p.reporter)},
		{"reporter_fd", strconv.Itoa(p.pipe)},
		{"self", strconv.Itoa(self)},
	}
	var b strings.Builder
	fmt.Fprintf(&b, "exec(compile(%s, 'kollet-start', 'exec'), {'__name__': 'kollet-start', 'settings': {", pyBytes(string(preloadProgram)))
	for _, s := range settings {
		fmt.Fprintf(&b, "%s: %s, ", pyString(s.key), s.value)
	}
	b.WriteString("}})\n")
	return []byte(b.String())
}

// pyBytes quotes text as a bytes literal of Python.
func pyBytes(text string) string {
	var b strings.Builder
	b.WriteString("b'")
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '\'' || c == '\\' {
			fmt.Fprintf(&b, "\\x%02x", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteString("'")
	return b.String()
}

func pyString(text string) string { return pyBytes(text) + ".decode()" }

func pyList(items []string) string { return "[" + strings.Join(items, ", ") + "]" }

func pyInts(numbers []int) string {
	var items []string
	for _, n := range numbers {
		items = append(items, strconv.Itoa(n))
	}
	return pyList(items)
}
