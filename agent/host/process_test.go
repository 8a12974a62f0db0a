package host_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// long is how long is waited for what is about to happen.
const long = 30 * time.Second

// child starts a process that is reaped by nobody before the test's end.
func child(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func open(t *testing.T, pid int) *host.Process {
	t.Helper()
	p, err := host.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func TestEnded(t *testing.T) {
	cmd := child(t, "sleep", "1000")
	p := open(t, cmd.Process.Pid)
	for _, within := range []time.Duration{0, time.Nanosecond, time.Millisecond} {
		if ended, err := p.Ended(within); ended || err != nil {
			t.Errorf("running, %v: %v, %v", within, ended, err)
		}
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	// It is a zombie now, which has ended although its number is taken.
	for _, within := range []time.Duration{long, 0, -1} {
		if ended, err := p.Ended(within); !ended || err != nil {
			t.Errorf("zombie, %v: %v, %v", within, ended, err)
		}
	}
	if again := open(t, cmd.Process.Pid); again.PID != cmd.Process.Pid {
		t.Error("another process")
	}
	cmd.Wait()
	if ended, err := p.Ended(0); !ended || err != nil {
		t.Errorf("reaped: %v, %v", ended, err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Errorf("signal to nobody: %v", err)
	}
	if status := cmd.ProcessState.Sys().(interface{ Signaled() bool }); !status.Signaled() {
		t.Error("it was not the signal that ended it")
	}
}

func TestOpenNobody(t *testing.T) {
	cmd := child(t, "true")
	cmd.Wait()
	for _, pid := range []int{cmd.Process.Pid, 0, -1} {
		if _, err := host.Open(pid); !errors.Is(err, host.ErrEnded) || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// Someone else's child.
func TestGrandchild(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, pid)
	if ended, err := p.Ended(0); ended || err != nil {
		t.Errorf("running: %v, %v", ended, err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if ended, err := p.Ended(-1); !ended || err != nil {
		t.Errorf("killed: %v, %v", ended, err)
	}
	cmd.Wait()
}

func TestWait(t *testing.T) {
	cmd := child(t, "sleep", "1000")
	p := open(t, cmd.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits any more: %v", err)
	}
	done := make(chan error)
	go func() { done <- p.Wait(t.Context()) }()
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(long):
		t.Fatal("it waits for a process that has ended")
	}
	if err := p.Wait(ctx); err != nil {
		t.Errorf("what has ended has, whatever the context says: %v", err)
	}
}

// A process that ends by itself is noticed without a signal.
func TestEndsByItself(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("cat")
	cmd.Stdin = read
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	read.Close()
	p := open(t, cmd.Process.Pid)
	if ended, err := p.Ended(0); ended || err != nil {
		t.Errorf("running: %v, %v", ended, err)
	}
	write.Close()
	if ended, err := p.Ended(long); !ended || err != nil {
		t.Errorf("at the end of its input: %v, %v", ended, err)
	}
}

// After Close nothing is known: above all not that the process ended.
func TestClosed(t *testing.T) {
	p, err := host.Open(child(t, "sleep", "1000").Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if ended, err := p.Ended(0); ended || err == nil {
		t.Errorf("got %v, %v", ended, err)
	}
	if err := p.Signal(unix.SIGTERM); err == nil {
		t.Error("a signal went somewhere")
	}
}

func TestNilProcessHasEnded(t *testing.T) {
	p, err := host.Open(0)
	if !errors.Is(err, host.ErrEnded) || p != nil {
		t.Fatalf("%v, %v", p, err)
	}
	defer p.Close()
	if ended, err := p.Ended(-1); !ended || err != nil {
		t.Errorf("%v, %v", ended, err)
	}
}
