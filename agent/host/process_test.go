package host_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// long is the time limit for what is about to happen.
const long = 30 * time.Second

// child starts a process that is not reaped before the end of the test.
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

func TestIsRoots(t *testing.T) {
	proc := t.TempDir()
	for pid, c := range map[int]struct {
		status string
		want   bool
	}{
		1: {"Name:\tsystemd\nUid:\t0\t0\t0\t0\nGid:\t1\t1\t1\t1\n", true},
		2: {"Name:\tUid:\t0\t0\t0\t0\nUid:\t1000\t1000\t1000\t1000\n", false},
		3: {"Uid:\t1000\t0\t0\t0\n", false}, // a program with set-user-ID
		4: {"Uid:\t0\n", false},
		5: {"", false},
	} {
		write(t, fmt.Sprintf("%s/%d/status", proc, pid), c.status)
		if got := (host.Host{Proc: proc}).IsRoots(pid); got != c.want {
			t.Errorf("%q: %v", c.status, got)
		}
	}
	if (host.Host{Proc: proc}).IsRoots(6) {
		t.Error("a process that has exited")
	}
}

func TestHasShim(t *testing.T) {
	proc := t.TempDir()
	for pid, name := range map[int]string{1: "systemd", 5: "containerd-shim", 6: "dockerd", 8: "conmon"} {
		write(t, fmt.Sprintf("%s/%d/comm", proc, pid), name+"\n")
	}
	h := host.Host{Proc: proc}
	for parent, want := range map[int]bool{1: false, 5: true, 6: false, 7: false, 8: true} {
		write(t, proc+"/9/stat", fmt.Sprintf("9 (a) b) S %d 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 100 99", parent))
		if got := h.HasShim(9); got != want {
			t.Errorf("child of process %d: %v", parent, got)
		}
	}
	if h.HasShim(10) {
		t.Error("a process that has exited")
	}
}

func TestExited(t *testing.T) {
	cmd := child(t, "sleep", "1000")
	p := open(t, cmd.Process.Pid)
	for _, within := range []time.Duration{0, time.Nanosecond, time.Millisecond} {
		if exited, err := p.Exited(within); exited || err != nil {
			t.Errorf("running, %v: %v, %v", within, exited, err)
		}
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	// It is a zombie now, which has exited although its number is taken.
	for _, within := range []time.Duration{long, 0, -1} {
		if exited, err := p.Exited(within); !exited || err != nil {
			t.Errorf("zombie, %v: %v, %v", within, exited, err)
		}
	}
	if again := open(t, cmd.Process.Pid); again.PID != cmd.Process.Pid {
		t.Error("not the same process")
	}
	cmd.Wait()
	if exited, err := p.Exited(0); !exited || err != nil {
		t.Errorf("reaped: %v, %v", exited, err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Errorf("signal a process that was reaped: %v", err)
	}
	if status := cmd.ProcessState.Sys().(interface{ Signaled() bool }); !status.Signaled() {
		t.Error("it was not the signal that killed it")
	}
}

func TestOpenReaped(t *testing.T) {
	cmd := child(t, "true")
	cmd.Wait()
	for _, pid := range []int{cmd.Process.Pid, 0, -1} {
		if _, err := host.Open(pid); !errors.Is(err, host.ErrExited) || !strings.Contains(err.Error(), strconv.Itoa(pid)) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
}

// A process need not be a child of this one.
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
	if exited, err := p.Exited(0); exited || err != nil {
		t.Errorf("running: %v, %v", exited, err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Error(err)
	}
	if exited, err := p.Exited(-1); !exited || err != nil {
		t.Errorf("killed: %v, %v", exited, err)
	}
	cmd.Wait()
}

func TestWait(t *testing.T) {
	cmd := child(t, "sleep", "1000")
	p := open(t, cmd.Process.Pid)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
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
		t.Fatal("Wait does not return for a process that has exited")
	}
	for range 1000 { // the context may end before the first look at the process, or after it
		if err := p.Wait(ctx); err != nil {
			t.Fatalf("an exited process and a cancelled context: %v", err)
		}
	}
}

// A process that ends by itself is noticed without a signal.
func TestExitsByItself(t *testing.T) {
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
	if exited, err := p.Exited(0); exited || err != nil {
		t.Errorf("running: %v, %v", exited, err)
	}
	write.Close()
	if exited, err := p.Exited(long); !exited || err != nil {
		t.Errorf("at the end of its input: %v, %v", exited, err)
	}
}

// After Close the state is unknown: the process is not reported as exited.
func TestClosed(t *testing.T) {
	p, err := host.Open(child(t, "sleep", "1000").Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if exited, err := p.Exited(0); exited || err == nil {
		t.Errorf("got %v, %v", exited, err)
	}
	if err := p.Signal(unix.SIGTERM); err == nil {
		t.Error("no error for a signal to a closed process")
	}
}

func TestNilProcessHasExited(t *testing.T) {
	p, err := host.Open(0)
	if !errors.Is(err, host.ErrExited) || p != nil {
		t.Fatalf("%v, %v", p, err)
	}
	defer p.Close()
	if exited, err := p.Exited(-1); !exited || err != nil {
		t.Errorf("%v, %v", exited, err)
	}
}
