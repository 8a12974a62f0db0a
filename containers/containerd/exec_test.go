package containerd

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
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

// exited is a command that has exited.
type exited struct{ tasks.TasksClient }

func (exited) Kill(context.Context, *tasks.KillRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	return nil, status.Error(codes.NotFound, "process already finished")
}

// Another process has the command's number by now.
func TestOnlyACommandOfTheContainerIsKilled(t *testing.T) {
	other := exec.Command("sleep", "1000")
	other.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	kill(task{tasks: exited{}, container: strings.Repeat("a", 64), exec: "b", pid: other.Process.Pid})
	_ = other.Process.Signal(syscall.SIGTERM)
	_ = other.Wait()
	if status, ok := other.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("a process of the host was killed: %v", other.ProcessState)
	}
}
