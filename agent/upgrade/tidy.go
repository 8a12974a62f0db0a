package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/kollet/kollet/agent/fetch"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// tidy finishes what a commit began: names, restart policies, the current link,
// and the removal of what nothing needs any more. It may be done again, also on
// a machine that lost its power right after the commit and came up with the old
// containers.
func (t *transaction) tidy(ctx context.Context) error {
	all, err := t.node.Containers(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if belongs(t.to, c) {
			continue
		}
		if err := t.demote(ctx, c); err != nil {
			return err
		}
	}
	for _, s := range t.to.Services {
		if err := t.promote(ctx, s); err != nil {
			return fmt.Errorf("settle %s: %w", s.Name, err)
		}
	}
	if err := t.node.Store().SetCurrent(t.to.Number); err != nil {
		return err
	}
	if err := fetch.UsePrefetched(t.node, t.to); err != nil {
		return err
	}
	_, err = Collect(ctx, t.node, t.to)
	return err
}

func belongs(g generation.Generation, c containers.Container) bool {
	s, ok := g.Service(c.Spec.Labels[node.LabelService])
	return ok && c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(s.Origin)
}

// demote takes name and restart policy from a container that was replaced,
// and stops it should it run.
func (t *transaction) demote(ctx context.Context, c containers.Container) error {
	name := c.Spec.Labels[node.LabelService]
	number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
	if err != nil {
		return fmt.Errorf("container %s has no generation in its labels", c.Spec.Name)
	}
	if c.State == containers.StateRunning {
		s, _ := t.from.Service(name)
		if err := stopSafely(ctx, t.node, c, s); err != nil {
			return fmt.Errorf("stop the old %s: %w", name, err)
		}
	}
	return t.node.Engine.Update(ctx, c.ID, node.StagedName(name, number), containers.RestartNo)
}

// promote gives a service's container its plain name and its restart policy, and
// starts it should it not run.
func (t *transaction) promote(ctx context.Context, s generation.Service) error {
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if err := t.evict(ctx, s.Name, c.ID); err != nil {
		return err
	}
	if err := t.node.Engine.Start(ctx, c.ID); err != nil {
		return err
	}
	return t.node.Engine.Update(ctx, c.ID, s.Name, s.Spec.Restart)
}

// evict removes a container that somebody put in a service's place by hand. It
// was stopped in the cut over.
func (t *transaction) evict(ctx context.Context, name, id string) error {
	other, err := t.node.Engine.Inspect(ctx, name)
	if errors.Is(err, containers.ErrNotFound) || err == nil && (other.ID == id || other.Spec.Labels[node.LabelNode] != "") {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.node.Engine.Stop(ctx, other.ID, 0); err != nil {
		return err
	}
	t.node.Note(name, "removed the container that was put in its place by hand")
	return t.node.Engine.Remove(ctx, other.ID)
}
