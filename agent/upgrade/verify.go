package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/containers"
)

// exitGrace is how long after a failed probe kollet waits for the service's
// process to exit: the probe may fail, through the engine, before the exit is seen.
const exitGrace = 200 * time.Millisecond

// verify decides whether the new generation is trusted: every service, changed or
// not, is healthy and stays healthy.
func (t *transaction) verify(ctx context.Context) error {
	for _, s := range t.to.Services {
		if err := t.watch.wait(ctx, s.Name); err != nil {
			return explain(ctx, t.node, err)
		}
	}
	// From here on, the exit of any watched process ends the wait for the others.
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(t.watch.ctx, func() { cancel(t.watch.failed()) })()
	defer cancel(nil)
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range t.to.Services {
		g.Go(func() error { return t.staysHealthy(gctx, s) })
	}
	err := g.Wait()
	if err != nil {
		t.watch.linger(exitGrace)
	}
	if failed := t.watch.failed(); failed != nil {
		err = failed
	}
	return explain(context.WithoutCancel(ctx), t.node, err)
}

func (t *transaction) staysHealthy(ctx context.Context, s generation.Service) error {
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if c.State != containers.StateRunning {
		return failure{s.Name, c.ID, fmt.Errorf("container is %s", c.State)}
	}
	target := health.Target{Engine: t.node.Engine, Host: t.node.Host, ID: c.ID, PID: c.PID, User: s.User}
	if s.Origin != t.to.Number { // not watched: it may have to reconnect to its peers
		if err := health.Ready(ctx, target, s.Healthcheck); err != nil {
			return failure{s.Name, c.ID, err}
		}
	}
	if err := health.Stable(ctx, target, s.Healthcheck); err != nil {
		return failure{s.Name, c.ID, err}
	}
	return nil
}

// syncGates puts the open gates on stable storage: a power loss after the commit
// must not close them.
func (t *transaction) syncGates() error {
	for _, s := range t.to.Services {
		if s.Origin != t.to.Number {
			continue
		}
		if err := gate.Sync(t.node.Store().Gate(t.to.Number, s.Name)); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// previousHealthy checks the old generation after a roll back.
func (t *transaction) previousHealthy(ctx context.Context) error {
	var errs []error
	for _, s := range t.from.Services {
		if len(t.previous[s.Name]) == 0 {
			continue // it did not run before, or was not touched
		}
		c, err := t.node.Engine.Inspect(ctx, t.previous[s.Name][0])
		if err == nil {
			err = health.Ready(ctx, health.Target{Engine: t.node.Engine, Host: t.node.Host, ID: c.ID, PID: c.PID, User: s.User}, s.Healthcheck)
		}
		if err != nil {
			errs = append(errs, explain(ctx, t.node, failure{s.Name, t.previous[s.Name][0], err}))
		}
	}
	return errors.Join(errs...)
}
