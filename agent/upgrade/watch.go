package upgrade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// watch follows the containers that were cut over until the generation is
// trusted: whether their processes run, and when they become healthy.
type watch struct {
	node    *node.Node
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	ready map[string]chan struct{} // closed when healthy
	gaps  map[string]journal.Gap
}

func newWatch(n *node.Node) *watch {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &watch{node: n, ctx: ctx, cancel: cancel, ready: map[string]chan struct{}{}, gaps: map[string]journal.Gap{}}
}

// failure is a service that did not become healthy, or did not stay healthy.
type failure struct {
	service string
	id      string // of its container
	err     error
}

func (f failure) Error() string { return f.service + ": " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

var errProcessExited = errors.New("process exited")

// add starts to watch a container whose gate was just opened.
func (w *watch) add(task newTask) {
	ready := make(chan struct{})
	w.mu.Lock()
	w.ready[task.service.Name] = ready
	w.mu.Unlock()
	w.running.Go(func() {
		defer task.process.Close()
		if task.process.Wait(w.ctx) == nil {
			w.cancel(failure{task.service.Name, task.id, errProcessExited})
		}
	})
	w.running.Go(func() {
		time.Sleep(cutoverGrace)
		if err := health.Ready(w.ctx, w.target(task), task.service.Healthcheck); err != nil {
			w.cancel(failure{task.service.Name, task.id, err})
			return
		}
		if !task.signalled.IsZero() {
			w.mu.Lock()
			w.gaps[task.service.Name] = journal.Gap{Ended: ms(task.signalled, task.exited), Opened: ms(task.signalled, task.opened), Healthy: ms(task.signalled, w.node.Host.Now())}
			w.mu.Unlock()
		}
		close(ready)
	})
}

func ms(from, to time.Time) float64 {
	return float64(to.Sub(from).Microseconds()) / 1000
}

func (w *watch) target(task newTask) health.Target {
	return health.Target{Engine: w.node.Engine, Host: w.node.Host, ID: task.id, PID: task.process.PID, User: task.service.User}
}

// wait returns nil when a service is healthy, and at once if it is not watched.
func (w *watch) wait(ctx context.Context, service string) error {
	w.mu.Lock()
	ready := w.ready[service]
	w.mu.Unlock()
	if ready == nil {
		return nil
	}
	select {
	case <-ready:
		return nil
	case <-w.ctx.Done():
		return context.Cause(w.ctx)
	case <-ctx.Done():
		return fmt.Errorf("interrupted while %s starts", service)
	}
}

// failed returns what went wrong with a watched container, or nil.
func (w *watch) failed() error { return context.Cause(w.ctx) }

// linger waits for a watched process to exit, for at most d.
func (w *watch) linger(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// stop ends the watch. It may be called again.
func (w *watch) stop() {
	w.cancel(context.Canceled)
	w.running.Wait()
}

// waitForDependencies waits until the services that the group depends on are
// healthy, as far as they were cut over in this transaction.
func (t *transaction) waitForDependencies(ctx context.Context, g group) error {
	for _, m := range g {
		for _, dep := range m.new.DependsOn {
			if err := t.watch.wait(ctx, dep); err != nil {
				return explain(ctx, t.node, err)
			}
		}
	}
	return nil
}

// explain adds to a service's failure the exit status of its container and its
// last log lines.
func explain(ctx context.Context, n *node.Node, err error) error {
	var f failure
	if !errors.As(err, &f) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if code, ended := exitCode(ctx, n, f); ended {
		err = fmt.Errorf("%w with exit status %d", err, code)
	}
	return fmt.Errorf("%w%s", err, n.LogTail(ctx, f.id))
}

// engineDelay is how long an engine may take to notice that a process exited;
// kollet notices first. A rollback waits for it too, and could not stop the container
// through an engine that does not notice.
const engineDelay = 10 * time.Second

// exitCode returns the exit status of a container that exited. If kollet knows
// that the process exited, it waits for the engine to notice.
func exitCode(ctx context.Context, n *node.Node, f failure) (int, bool) {
	for until := n.Host.Now().Add(engineDelay); ; time.Sleep(20 * time.Millisecond) {
		c, err := n.Engine.Inspect(ctx, f.id)
		if err != nil {
			return 0, false
		}
		if c.State != containers.StateRunning {
			return c.ExitCode, true
		}
		if !errors.Is(f.err, errProcessExited) || n.Host.Now().After(until) {
			return 0, false
		}
	}
}
