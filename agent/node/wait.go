package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kollet/kollet/containers"
)

// At a first boot, and after a power loss, kollet may start before the engine or
// the registry is ready.
const (
	retryInterval  = 500 * time.Millisecond // pause between two tries
	noticeInterval = 30 * time.Second       // pause between two lines that report the wait
	tryTimeout     = 10 * time.Second       // for one answer of the engine
)

// Await tries until it succeeds, the error is not worth another try, or the limit
// is over. It reports what it waits for.
func (n *Node) Await(ctx context.Context, limit time.Duration, what string, try func(context.Context) error, worth func(error) bool) error {
	begun := n.Host.Now()
	told := begun.Add(-noticeInterval)
	for {
		err := try(ctx)
		if err != nil && ctx.Err() != nil {
			return fmt.Errorf("interrupted while waiting for %s: %w", what, ctx.Err())
		}
		if err == nil || limit <= 0 || !worth(err) {
			return err
		}
		now := n.Host.Now()
		if now.Sub(begun) >= limit {
			return fmt.Errorf("waited %v for %s: %w", limit, what, err)
		}
		if now.Sub(told) >= noticeInterval {
			n.Note("", "waiting for %s, %v more at most: %v", what, (limit - now.Sub(begun)).Round(time.Second), err)
			told = now
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("interrupted while waiting for %s: %w", what, ctx.Err())
		case <-time.After(min(retryInterval, limit)):
		}
	}
}

// AwaitEngine waits until the engine answers, and returns its answer.
func (n *Node) AwaitEngine(ctx context.Context, limit time.Duration) (info containers.Info, err error) {
	err = n.Await(ctx, limit, "the container engine", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, tryTimeout)
		defer cancel()
		info, err = n.Engine.Info(ctx)
		return err
	}, func(err error) bool {
		return errors.Is(err, containers.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
	})
	return info, err
}

// Patient returns the node with pulls that wait for the registry, and which may report
// the progress of several pulls at once.
func (n *Node) Patient(limit time.Duration) *Node {
	waiting := *n
	var mu sync.Mutex
	waiting.Report = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		n.Emit(e)
	}
	waiting.patience = limit
	return &waiting
}
