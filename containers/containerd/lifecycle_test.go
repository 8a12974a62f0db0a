package containerd

import (
	"context"
	"errors"
	"testing"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

// ending is a task that exits before anyone waits for it. The wait ends with an error.
type ending struct {
	tasks.TasksClient
	wait error
}

func (e ending) Wait(context.Context, *tasks.WaitRequest, ...grpc.CallOption) (*tasks.WaitResponse, error) {
	return &tasks.WaitResponse{ExitStatus: 3}, e.wait
}

func (e ending) Kill(context.Context, *tasks.KillRequest, ...grpc.CallOption) (*emptypb.Empty, error) {
	return nil, status.Error(codes.NotFound, "process already finished")
}

// The restart monitor may delete the task of a container that exits while it is stopped.
func TestTaskIsDeletedBeforeItsEndIsSeen(t *testing.T) {
	for name, c := range map[string]struct {
		wait, want error
		left       client.ProcessStatus
	}{
		"exited":  {nil, nil, client.Stopped},
		"deleted": {status.Error(codes.NotFound, "task abc"), nil, ""},
		"unknown": {status.Error(codes.Unavailable, "closing"), errdefs.ErrUnavailable, client.Running},
	} {
		t.Run(name, func(t *testing.T) {
			running := state{Status: client.Status{Status: client.Running}}
			left, err := (&Engine{}).end(t.Context(), ctr.Container{}, task{tasks: ending{wait: c.wait}}, running, time.Hour)
			if !errors.Is(err, c.want) || !left.is(c.left) {
				t.Errorf("got %v, %q, want %v, %q", err, left.Status.Status, c.want, c.left)
			}
			if c.left == client.Stopped && left.ExitStatus != 3 {
				t.Errorf("got exit status %d, want 3", left.ExitStatus)
			}
		})
	}
}
