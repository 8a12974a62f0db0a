package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// exitGrace is how long after a failed probe kollet waits for the service's
// process to exit: the probe may fail, through the engine, before the exit is seen.
const exitGrace = 2 * time.Second

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
		if _, known := t.unhealthy[s.Name]; known && s.Origin != t.to.Number {
			continue
		}
		g.Go(func() error {
			if err := t.staysHealthy(gctx, s); err != nil {
				return err
			}
			return t.addsNoProblem(gctx, s)
		})
		if t.bootsCanary(s) {
			g.Go(func() error { return t.tryCanary(gctx, s) })
		}
	}
	unanswered := t.awaitReports(gctx, g)
	err := errors.Join(g.Wait(), unanswered())
	if err != nil {
		t.watch.linger(exitGrace)
	}
	if failed := t.watch.failed(); failed != nil {
		err = failed
	}
	if err == nil {
		err = t.noneStartedAgain(ctx)
	}
	return explain(context.WithoutCancel(ctx), t.node, err)
}

// noneStartedAgain requires that what was cut over stays stopped. A container of the old
// generation that an operator or a watchdog has started meanwhile runs beside the new one, whose probes it
// may have answered, also if it has been stopped again. One of generation 0 that ran before, and to
// which the node returns, was started by its cutover.
func (t *transaction) noneStartedAgain(ctx context.Context) error {
	for _, service := range slices.Sorted(maps.Keys(t.previous)) {
		for _, id := range t.previous[service] {
			c, err := t.node.Engine.Inspect(ctx, id)
			if errors.Is(err, containers.ErrNotFound) {
				continue
			}
			if err != nil {
				return failure{service, id, err}
			}
			if belongs(t.to, c) {
				continue
			}
			last, known := t.stopped[id]
			if !c.State.Stopped() || known && !c.Started.Equal(last) {
				return failure{service, id, errors.New("its old container was started after its cutover, not by kollet; find out what started it, and run the upgrade again")}
			}
		}
	}
	return nil
}

// awaitReports has the control plane confirm each service that was cut over. The
// function that it returns warns, after the wait, of each for which the control plane did
// not answer: that says nothing about the node.
func (t *transaction) awaitReports(ctx context.Context, g *errgroup.Group) func() error {
	if t.reports == nil {
		return func() error { return nil }
	}
	silent := make(chan failure, len(t.to.Services))
	for _, s := range t.to.Services {
		if !t.reports.follows(s.Name) {
			continue
		}
		g.Go(func() error {
			err := t.reports.wait(ctx, s)
			if _, ok := errors.AsType[unanswered](err); ok {
				silent <- failure{service: s.Name, err: err}
				return nil
			}
			if err == nil || ctx.Err() != nil {
				return err
			}
			c, inspectErr := t.node.Container(ctx, s.Name, s.Origin)
			return errors.Join(failure{s.Name, c.ID, err}, inspectErr)
		})
	}
	return func() error {
		close(silent)
		var errs []error
		for f := range silent {
			errs = append(errs, t.warn(f.service, "whether it reports is not known, only its probes pass: %w", f.err))
		}
		return errors.Join(errs...)
	}
}

func (t *transaction) staysHealthy(ctx context.Context, s generation.Service) error {
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if s.Origin != t.to.Number {
		return t.reconnects(ctx, s, c.ID)
	}
	if c.State != containers.StateRunning {
		return failure{s.Name, c.ID, fmt.Errorf("container is %s", c.State)}
	}
	if err := health.Stable(ctx, health.Of(t.node.Engine, t.node.Host, c, s.User), s.Healthcheck); err != nil {
		return failure{s.Name, c.ID, err}
	}
	return nil
}

// restartedStable is how long a service that was not replaced has to stay healthy
// after it exited in the upgrade, for example because its peer was away.
const restartedStable = 30 * time.Second

// reconnects verifies a service that was not replaced, and therefore is not watched. It
// may have to reconnect to its peers, and the engine may restart it. But from the
// first success of its probes to the last it has to be the same run.
func (t *transaction) reconnects(ctx context.Context, s generation.Service, id string) error {
	first, err := awaitRun(ctx, t.node, s, id)
	if err != nil {
		return failure{s.Name, id, err}
	}
	probes := slices.Clone(s.Healthcheck)
	if first.Restarts > 0 && health.RanFor(first, t.node.Host) < t.node.Host.Now().Sub(t.began) {
		for i := range probes {
			probes[i].Stable = max(probes[i].Stable, restartedStable)
		}
	}
	if err := keepsRunning(ctx, t.node, s, first, probes); err != nil {
		return failure{s.Name, id, err}
	}
	return nil
}

// The pauses between two tries of awaitRun, the first and the longest.
const (
	firstRetry   = 10 * time.Millisecond
	longestRetry = time.Second
)

// restartLimit is how long a service without probes may take to run again: engines wait
// for up to a minute before they start a service again.
const restartLimit = time.Minute

// awaitRun waits until a service's probes have passed in one run of its container, and
// returns the container as it was in that run. While the engine is about to start it, it is
// looked up again before each try: the next run is another process.
func awaitRun(ctx context.Context, n *node.Node, s generation.Service, id string) (containers.Container, error) {
	limit := restartLimit
	for i, p := range s.Healthcheck {
		if i == 0 || p.StartPeriod > limit {
			limit = p.StartPeriod
		}
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for wait := firstRetry; ; wait = min(2*wait, longestRetry) {
		c, err := n.Engine.Inspect(ctx, id)
		if err != nil {
			return c, err
		}
		switch c.State {
		case containers.StateRunning:
			err = health.Try(waiting, health.Of(n.Engine, n.Host, c, s.User), s.Healthcheck)
		case containers.StateRestarting, containers.StateOther:
			err = fmt.Errorf("container is %s", c.State)
		default:
			return c, fmt.Errorf("container is %s", c.State)
		}
		if err == nil {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-waiting.Done():
			return c, fmt.Errorf("not healthy within %v: %w", limit, err)
		case <-time.After(wait):
		}
	}
}

// keepsRunning requires that the probes keep passing in the run of a container that
// was seen first: they also pass between two crashes.
func keepsRunning(ctx context.Context, n *node.Node, s generation.Service, first containers.Container, probes []nodefile.Probe) error {
	if err := health.Stable(ctx, health.Of(n.Engine, n.Host, first, s.User), probes); err != nil {
		return err
	}
	last, err := n.Engine.Inspect(ctx, first.ID)
	if err != nil {
		return err
	}
	if last.State != containers.StateRunning || last.PID != first.PID || !last.Started.Equal(first.Started) || last.Restarts != first.Restarts {
		return fmt.Errorf("did not keep running (restarts: %d, state: %s)", last.Restarts, last.State)
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
			return fmt.Errorf("%s: %w", s.Name, durable.Explain(err))
		}
	}
	return nil
}

// healthyAgain checks a service to which a rollback went back. If the engine does not
// answer, that says nothing about the service: it is asked again.
func healthyAgain(ctx context.Context, n *node.Node, s generation.Service, id string) error {
	var found error
	_ = persist(ctx, func() error {
		found = keepsHealthy(ctx, n, s, id)
		if errors.Is(found, containers.ErrUnreachable) {
			return found
		}
		return nil
	})
	return found
}

// keepsHealthy requires that a service becomes healthy and stays so.
func keepsHealthy(ctx context.Context, n *node.Node, s generation.Service, id string) error {
	c, err := n.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	if c.State == containers.StateRunning {
		if err := health.Ready(ctx, health.Of(n.Engine, n.Host, c, s.User), s.Healthcheck); err != nil {
			return err
		}
		if c, err = n.Engine.Inspect(ctx, id); err != nil {
			return err
		}
	}
	if err := health.Restarting(c, n.Host); err != nil {
		return err
	}
	if c.State != containers.StateRunning {
		return fmt.Errorf("container is %s", c.State)
	}
	return keepsRunning(ctx, n, s, c, s.Healthcheck)
}

// previousHealthy checks the old generation after a roll back.
func (t *transaction) previousHealthy(ctx context.Context) error {
	err := eachOf(t.from.Services, func(s generation.Service) error {
		revived := t.revived[s.Name]
		if len(t.previous[s.Name]) == 0 {
			return nil // it did not run before, or was not touched
		}
		if revived == "" {
			return failure{s.Name, "", fmt.Errorf("its container was removed manually; %s", t.recreate())}
		}
		if err := healthyAgain(ctx, t.node, s, revived); err != nil {
			return explain(ctx, t.node, failure{s.Name, revived, err})
		}
		return nil
	})
	t.sweepCanary(ctx, t.from.Number)
	return err
}

// eachOf checks services at the same time, and joins what it finds in their order.
func eachOf(services []generation.Service, check func(generation.Service) error) error {
	errs := make([]error, len(services))
	var checks sync.WaitGroup
	for i, s := range services {
		checks.Go(func() { errs[i] = check(s) })
	}
	checks.Wait()
	return errors.Join(errs...)
}
