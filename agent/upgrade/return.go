package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// returns reports whether a member's container of generation 0 runs again: it was not created by
// kollet, and has no gate.
func (m member) returns() bool { return m.new.Name != "" && m.new.Origin == 0 }

// checkReturn requires the containers of generation 0, and refuses to give guests back to a libvirt
// of another image than the one that runs. Nothing of generation 0 is staged, so it cannot be asked
// whether it fits them, as that of an upgrade is.
func (t *transaction) checkReturn(ctx context.Context) error {
	if !t.target.Returns {
		return nil
	}
	for _, s := range t.target.Services {
		_, err := t.node.Container(ctx, s.Name, 0)
		if errors.Is(err, containers.ErrNotFound) {
			return fmt.Errorf("check: generation 0 is not complete: kolla-ansible's container of %s was removed or created again; docs/kolla.md says how to give the node back without it", s.Name)
		}
		if err != nil {
			return fmt.Errorf("check: generation 0: %w", err)
		}
	}
	guests, err := t.node.Guests()
	if err != nil {
		return err
	}
	if err := t.checkNotReturning(len(guests) > 0); err != nil {
		return err
	}
	for _, s := range t.target.Services {
		runs, there := t.from.Service(s.Name)
		if s.Guests == nil || !there || runs.Image.ID == s.Image.ID || len(guests) == 0 {
			continue
		}
		if err := t.refuse(fmt.Errorf("check: guests run, and %s of kolla-ansible has another image (%s) than the one that runs (%s): it may not know them; roll back to a generation with its image first", s.Name, s.Ref, runs.Ref)); err != nil {
			return err
		}
	}
	return nil
}

// checkNotReturning reports services that were added since, and that nothing of generation 0 runs. It
// refuses to leave guests without libvirt.
func (t *transaction) checkNotReturning(guests bool) error {
	for _, s := range t.from.Services {
		returns := slices.ContainsFunc(t.target.Services, func(r generation.Service) bool { return r.Name == s.Name })
		switch {
		case returns:
		case s.Guests != nil && guests:
			if err := t.refuse(fmt.Errorf("check: guests run, and generation 0 has no %s: nothing would run them; migrate them away first", s.Name)); err != nil {
				return err
			}
		default:
			if err := t.warn(s.Name, "generation 0 does not have it: it stops; if kolla-ansible is to run it, start its container, or use %s", t.node.Redeploy()); err != nil {
				return err
			}
		}
	}
	return nil
}

// returnAll starts the containers of generation 0 of a group again, in order, each after the
// services that it depends on are healthy. Their old tasks have stopped.
func (t *transaction) returnAll(ctx context.Context, g group, stopped []oldTask) error {
	for _, m := range g {
		if !m.returns() {
			continue
		}
		if err := t.waitForDependencies(ctx, group{m}); err != nil {
			return err
		}
		task, err := t.returnOne(ctx, m)
		if err != nil {
			return fmt.Errorf("start %s again: %w", m.name, err)
		}
		if task.process == nil {
			return explain(ctx, t.node, failure{m.name, task.id, fmt.Errorf("kolla-ansible's container: %w at once", errProcessExited)})
		}
		for _, old := range stopped {
			if old.service.Name == m.name {
				task.signalled, task.exited = old.signalled, old.exited
			}
		}
		t.watch.add(task)
	}
	return nil
}

// returnOne returns a task without a process if that has exited already.
func (t *transaction) returnOne(ctx context.Context, m member) (newTask, error) {
	task := newTask{service: m.new}
	c, err := t.node.Container(ctx, m.name, 0)
	if err != nil {
		return task, err
	}
	if err := t.node.Return(ctx, c, false); err != nil {
		return task, err
	}
	if c, err = t.node.Engine.Inspect(ctx, c.ID); err != nil {
		return task, err
	}
	task.id, task.opened = c.ID, t.node.Host.Now()
	task.process, _, err = t.node.Host.OpenContainer(c.PID, c.ID)
	if errors.Is(err, host.ErrExited) {
		err = nil
	}
	return task, err
}
