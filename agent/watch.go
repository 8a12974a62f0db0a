package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/containers"
)

// incoming is a staged container whose gate is about to be opened.
type incoming struct {
	id      string
	service generation.Service
	process *host.Process

	told, ended time.Time // the old one was told to end, and had ended; zero if there was none
	opened      time.Time
}

// incoming takes hold of a group's staged containers.
func (t *transaction) incoming(ctx context.Context, g group) ([]incoming, error) {
	var coming []incoming
	for _, m := range g {
		if m.new.Name == "" {
			continue
		}
		c, err := t.Container(ctx, m.name, t.to.Number)
		if err != nil {
			return nil, err
		}
		p, err := host.Open(c.PID)
		if err != nil {
			return nil, fmt.Errorf("the staged %s has ended at its gate: %w", m.name, err)
		}
		coming = append(coming, incoming{id: c.ID, service: m.new, process: p})
	}
	return coming, nil
}

// watch follows the containers that were cut over until the generation is
// trusted: that their processes live, and when they become healthy.
type watch struct {
	engine  health.Execer
	ctx     context.Context
	cancel  context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	ready map[string]chan struct{} // closed when healthy
	gaps  map[string]journal.Gap
}

func newWatch(engine health.Execer) *watch {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &watch{engine: engine, ctx: ctx, cancel: cancel, ready: map[string]chan struct{}{}, gaps: map[string]journal.Gap{}}
}

// failure is a service that did not become healthy, or did not stay so.
type failure struct {
	service string
	id      string // of its container
	err     error
}

func (f failure) Error() string { return f.service + ": " + f.err.Error() }
func (f failure) Unwrap() error { return f.err }

var errProcessEnded = errors.New("its process ended")

// add starts to watch a container whose gate was just opened.
func (w *watch) add(in incoming) {
	ready := make(chan struct{})
	w.mu.Lock()
	w.ready[in.service.Name] = ready
	w.mu.Unlock()
	w.running.Go(func() {
		defer in.process.Close()
		if in.process.Wait(w.ctx) == nil {
			w.cancel(failure{in.service.Name, in.id, errProcessEnded})
		}
	})
	w.running.Go(func() {
		time.Sleep(firstMoments)
		if err := health.Ready(w.ctx, w.target(in), in.service.Health); err != nil {
			w.cancel(failure{in.service.Name, in.id, err})
			return
		}
		if !in.told.IsZero() {
			w.mu.Lock()
			w.gaps[in.service.Name] = journal.Gap{Ended: ms(in.told, in.ended), Opened: ms(in.told, in.opened), Healthy: ms(in.told, time.Now())}
			w.mu.Unlock()
		}
		close(ready)
	})
}

func ms(from, to time.Time) float64 {
	return float64(to.Sub(from).Microseconds()) / 1000
}

func (w *watch) target(in incoming) health.Target {
	return health.Target{Engine: w.engine, ID: in.id, PID: in.process.PID, User: in.service.User}
}

// wait returns nil once a service is healthy; at once if it is not watched.
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

// failed returns what went wrong with a watched container, nil if all is well.
func (w *watch) failed() error { return context.Cause(w.ctx) }

// linger gives the watched processes that long to end.
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

// waitForAfter waits until the services that the group comes after are healthy,
// as far as they were cut over in this transaction.
func (t *transaction) waitForAfter(ctx context.Context, g group) error {
	for _, m := range g {
		for _, dep := range m.new.After {
			if err := t.watch.wait(ctx, dep); err != nil {
				return t.explain(ctx, err)
			}
		}
	}
	return nil
}

// explain adds to a service's failure how its container ended, and its last
// words.
func (a *Agent) explain(ctx context.Context, err error) error {
	var f failure
	if !errors.As(err, &f) {
		return err
	}
	ctx = context.WithoutCancel(ctx)
	if code, ended := a.exitCode(ctx, f); ended {
		err = fmt.Errorf("%w with exit status %d", err, code)
	}
	return fmt.Errorf("%w%s", err, a.LogTail(ctx, f.id))
}

// engineTime is how long an engine may take to notice that a process ended,
// which kollet sees before it.
const engineTime = 2 * time.Second

// exitCode returns the exit status of a container that ended. Where the process
// is known to have ended it waits for the engine to know too.
func (a *Agent) exitCode(ctx context.Context, f failure) (int, bool) {
	for until := time.Now().Add(engineTime); ; time.Sleep(20 * time.Millisecond) {
		c, err := a.Engine.Inspect(ctx, f.id)
		if err != nil {
			return 0, false
		}
		if c.State != containers.StateRunning {
			return c.ExitCode, true
		}
		if !errors.Is(f.err, errProcessEnded) || time.Now().After(until) {
			return 0, false
		}
	}
}
