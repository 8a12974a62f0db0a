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

// tidy follows a commit: names, restart policies, the current link, and the
// removal of what is no longer needed. It may run again, even on a machine that
// lost power right after the commit and booted with the old containers.
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
			return fmt.Errorf("promote %s: %w", s.Name, err)
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

// belongs reports whether a container is that of a generation's service.
func belongs(g generation.Generation, c containers.Container) bool {
	s, ok := g.Service(c.Spec.Labels[node.LabelService])
	return ok && c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(s.Origin)
}

// demote takes the plain name and the restart policy from a container that was
// replaced, and stops it if it runs.
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
// starts it if it does not run.
func (t *transaction) promote(ctx context.Context, s generation.Service) error {
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if err := t.evict(ctx, s.Name, c.ID); err != nil {
		return err
	}
	if err := t.node.Engine.Update(ctx, c.ID, s.Name, s.Spec.Restart); err != nil { // before, see startAgain
		return err
	}
	return t.node.Engine.Start(ctx, c.ID)
}

// evict removes a container that was created manually under a service's name. The
// cut over stopped it.
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
	t.node.Note(name, "removed the container that was created manually under its name")
	return t.node.Engine.Remove(ctx, other.ID)
}
