package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/containers"
)

// verify decides whether the new generation is trusted: every service is
// healthy and stays so, those that were not touched too, and every guest that
// ran still runs and is known to libvirt.
func (t *transaction) verify(ctx context.Context) error {
	for _, s := range t.to.Services {
		if err := t.watch.wait(ctx, s.Name); err != nil {
			return t.explain(ctx, err)
		}
	}
	// From here on the end of any watched process ends the wait for the others.
	ctx, cancel := context.WithCancelCause(ctx)
	defer context.AfterFunc(t.watch.ctx, func() { cancel(t.watch.failed()) })()
	defer cancel(nil)
	g, gctx := errgroup.WithContext(ctx)
	for _, s := range t.to.Services {
		g.Go(func() error { return t.staysHealthy(gctx, s) })
	}
	g.Go(func() error { return t.guestsLive(gctx) })
	err := g.Wait()
	if failed := t.watch.failed(); failed != nil {
		err = failed
	}
	return t.explain(context.WithoutCancel(ctx), err)
}

func (t *transaction) staysHealthy(ctx context.Context, s generation.Service) error {
	c, err := t.container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if c.State != containers.StateRunning {
		return failure{s.Name, c.ID, fmt.Errorf("its container is %s", c.State)}
	}
	target := health.Target{Engine: t.Engine, ID: c.ID, PID: c.PID, User: s.User}
	if s.Origin != t.to.Number { // not watched: it may have to find its peers again
		if err := health.Ready(ctx, target, s.Health); err != nil {
			return failure{s.Name, c.ID, err}
		}
	}
	if err := health.Stable(ctx, target, s.Health); err != nil {
		return failure{s.Name, c.ID, err}
	}
	return nil
}

// libvirtTime is how long a libvirt that just started may take to find the
// guests that it did not start.
const libvirtTime = 30 * time.Second

// guestsLive checks that every guest that ran before is the same process now,
// and that its libvirt lists it.
func (t *transaction) guestsLive(ctx context.Context) error {
	if len(t.guests) == 0 {
		return nil
	}
	now, err := t.Agent.guests()
	if err != nil {
		return err
	}
	for _, g := range t.guests {
		if !slices.ContainsFunc(now, g.Same) {
			return fmt.Errorf("guest %s (process %d) has ended", g.Name, g.PID)
		}
	}
	for _, s := range t.to.Services {
		if s.Guests == nil {
			continue
		}
		if err := t.libvirtKnows(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (t *transaction) libvirtKnows(ctx context.Context, s generation.Service) error {
	ctx, cancel := context.WithTimeout(ctx, libvirtTime)
	defer cancel()
	c, err := t.container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	for {
		unknown, err := t.unknownGuests(ctx, s, c.ID)
		if err == nil && len(unknown) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("ask %s for its guests: %w", s.Name, err)
			}
			return fmt.Errorf("%s does not know guest %s", s.Name, strings.Join(unknown, ", "))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (t *transaction) unknownGuests(ctx context.Context, s generation.Service, id string) ([]string, error) {
	var out strings.Builder
	status, err := t.Engine.Exec(ctx, id, containers.Exec{Argv: s.Guests.List, User: s.User, Stdout: &out, Stderr: &out})
	if err != nil {
		return nil, err
	}
	if status != 0 {
		return nil, fmt.Errorf("%q: exit status %d: %s", strings.Join(s.Guests.List, " "), status, strings.TrimSpace(out.String()))
	}
	known := strings.Fields(out.String())
	var unknown []string
	for _, g := range t.guests {
		if g.Service == s.Name && !slices.Contains(known, g.UUID) {
			unknown = append(unknown, g.Name)
		}
	}
	return unknown, nil
}

// settleGates puts the open gates on stable storage: after the commit, a power
// loss must not close them.
func (t *transaction) settleGates() error {
	for _, s := range t.to.Services {
		if s.Origin != t.to.Number {
			continue
		}
		if err := durable.SyncDir(t.store().Gate(t.to.Number, s.Name)); err != nil {
			return fmt.Errorf("settle the gate of %s: %w", s.Name, err)
		}
	}
	t.gaps = t.watch.gaps
	return nil
}

// healthyAgain checks the old generation after a roll back.
func (t *transaction) healthyAgain(ctx context.Context) error {
	var errs []error
	for _, s := range t.from.Services {
		if len(t.old[s.Name]) == 0 {
			continue // it did not run before either, or was not touched
		}
		c, err := t.Engine.Inspect(ctx, t.old[s.Name][0])
		if err == nil {
			err = health.Ready(ctx, health.Target{Engine: t.Engine, ID: c.ID, PID: c.PID, User: s.User}, s.Health)
		}
		if err != nil {
			errs = append(errs, t.explain(ctx, failure{s.Name, t.old[s.Name][0], err}))
		}
	}
	return errors.Join(errs...)
}
