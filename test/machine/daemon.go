package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// TB is the part of testing.TB that this package needs. Programs that are not tests
// implement it themselves.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// ready is how long to wait for a daemon. It only limits how long a broken test hangs.
const ready = 5 * time.Minute

// daemon is a background program with a log file.
type daemon struct {
	t     TB
	name  string
	log   string
	make  func() *exec.Cmd
	probe func(context.Context) error // returns nil if the daemon answers

	first string // directories, as in PATH, whose programs come before the machine's own
	cmd   *exec.Cmd
	done  chan struct{} // closed when it has exited
}

// command returns a command of the daemon's program, which finds other programs where that is.
func (d *daemon) command(name string, args ...string) *exec.Cmd {
	d.t.Helper()
	path := d.path()
	cmd := exec.Command(find(d.t, name, path), args...)
	cmd.Env = append(os.Environ(), "PATH="+path)
	return cmd
}

func (d *daemon) path() string {
	if d.first == "" {
		return os.Getenv("PATH")
	}
	return d.first + ":" + os.Getenv("PATH")
}

// program returns the path of a program that a Debian package installs.
func program(t TB, name string) string {
	t.Helper()
	return find(t, name, os.Getenv("PATH"))
}

func find(t TB, name, path string) string {
	t.Helper()
	for _, dir := range filepath.SplitList(path + ":/usr/sbin:/usr/bin:/sbin") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	t.Fatalf("%s is not installed; install it with: make deps", name)
	return ""
}

// Dir creates a directory on disk that is removed after the test, with everything that
// is mounted below it. Its path is short enough for sockets below it.
func Dir(t TB, name string) string {
	t.Helper()
	if !Inside() {
		t.Fatalf("not inside a machine: TestMain must call machine.Main")
	}
	dir, err := os.MkdirTemp(os.Getenv(dirVar), name+"-")
	if err != nil {
		t.Fatalf("make a directory for %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := removeTree(dir); err != nil {
			t.Logf("remove the files of %s: %v", name, err)
		}
	})
	return dir
}

// start runs the daemon and waits until it answers.
func (d *daemon) start() {
	d.t.Helper()
	if d.running() {
		return
	}
	log, err := os.OpenFile(d.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		d.t.Fatalf("open the log of %s: %v", d.name, err)
	}
	defer log.Close()
	cmd := d.make()
	cmd.Stdout, cmd.Stderr = log, log
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true // an interrupt from the terminal goes to the test only
	if err := cmd.Start(); err != nil {
		d.t.Fatalf("start %s: %v", d.name, err)
	}
	done := make(chan struct{})
	go func() {
		cmd.Wait() // its log has the error
		close(done)
	}()
	d.cmd, d.done = cmd, done
	if err := d.await(); err != nil {
		d.t.Fatalf("start %s: %v\n%s", d.name, err, d.tail())
	}
}

// await waits until the daemon answers.
func (d *daemon) await() error {
	ctx, cancel := context.WithTimeout(context.Background(), ready)
	defer cancel()
	for {
		err := d.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-d.done:
			return errors.New("it exited: " + d.cmd.ProcessState.String())
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (d *daemon) running() bool {
	if d.done == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// signal sends a signal to the running daemon.
func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if !d.running() {
		d.t.Fatalf("%s is not running\n%s", d.name, d.tail())
	}
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatalf("send %v to %s: %v", s, d.name, err)
	}
}

// end sends a signal and waits until the process has exited.
func (d *daemon) end(s syscall.Signal) {
	d.t.Helper()
	if !d.running() {
		return
	}
	d.cmd.Process.Signal(s)
	select {
	case <-d.done:
	case <-time.After(ready):
		d.cmd.Process.Kill()
		<-d.done
		d.t.Fatalf("%s did not exit on %v\n%s", d.name, s, d.tail())
	}
}

// tail returns the end of the log.
func (d *daemon) tail() string {
	const lines = 40
	text, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimRight(text, "\n")
	from := len(text)
	for range lines {
		if from = bytes.LastIndexByte(text[:from], '\n'); from < 0 {
			break
		}
	}
	return fmt.Sprintf("--- last lines of %s:\n%s", d.log, text[from+1:])
}

// tellOnFailure prints the end of the log if the test failed. It must be registered
// after Dir, so that it runs before the log is removed.
func (d *daemon) tellOnFailure() {
	d.t.Cleanup(func() {
		if d.t.Failed() {
			d.t.Logf("%s", d.tail())
		}
	})
}

// count generates numbers for short, unique names.
var count = func() func() int {
	var mu sync.Mutex
	n := 0
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		n++
		return n
	}
}()
