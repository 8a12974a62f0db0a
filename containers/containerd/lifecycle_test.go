package containerd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
)

// ending is a task that exits before anyone waits for it. The wait ends with an error.
type ending struct {
	client.Task
	wait error
}

func (e ending) Wait(context.Context) (<-chan client.ExitStatus, error) {
	ended := make(chan client.ExitStatus, 1)
	ended <- *client.NewExitStatus(client.UnknownExitStatus, time.Time{}, e.wait)
	return ended, nil
}

func (e ending) Kill(context.Context, syscall.Signal, ...client.KillOpts) error {
	return errdefs.ErrNotFound
}

// The restart monitor may delete the task of a container that exits while it is stopped.
func TestTaskIsDeletedBeforeItsEndIsSeen(t *testing.T) {
	for name, c := range map[string]struct{ wait, want error }{
		"exited":  {nil, nil},
		"deleted": {fmt.Errorf("task abc: %w", errdefs.ErrNotFound), nil},
		"unknown": {errdefs.ErrUnavailable, errdefs.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			err := (&Engine{}).end(t.Context(), ctr.Container{}, ending{wait: c.wait}, false, time.Hour)
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
