package containerd

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/containerd/containerd/v2/client"
)

// A command on a terminal outlives its input: the shim would hang up the terminal.
func TestInputOfATerminalDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exited := make(chan struct{})
		in := newInput(strings.NewReader("hello\n"))
		in.held = exited
		var read string
		go func() {
			all, _ := io.ReadAll(in)
			read = string(all) + "end"
		}()
		synctest.Wait()
		if read != "" {
			t.Errorf("the input ended before the command: %q", read)
		}
		select {
		case <-in.ended:
		default:
			t.Error("the end of the input was not noticed")
		}
		close(exited)
		synctest.Wait()
		if read != "hello\nend" {
			t.Errorf("read %q", read)
		}
	})
}

// exited is a command whose number another process has by now.
type exited struct {
	client.Process
	pid int
}

func (p exited) Pid() uint32 { return uint32(p.pid) }

func (exited) Kill(context.Context, syscall.Signal, ...client.KillOpts) error {
	return errors.New("process already finished: not found")
}

func TestOnlyACommandOfTheContainerIsKilled(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	kill(exited{pid: other.Process.Pid}, strings.Repeat("a", 64))
	_ = other.Process.Signal(syscall.SIGTERM)
	_ = other.Wait()
	if status, ok := other.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("a process of the host was killed: %v", other.ProcessState)
	}
}
