package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/kollet/kollet/agent/fetch"
	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// tidy follows a commit: names, restart policies, the current link, the removal of what
// is no longer needed, and the compute service that was disabled. It may run again, even
// on a machine that lost power right after the commit and booted with the old containers.
func (t *transaction) tidy(ctx context.Context) error {
	t.release()
	t.broken = nil
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
		err := persist(ctx, func() error { return t.promote(ctx, s, all) })
		if unanswering(err) {
			return fmt.Errorf("promote %s: %w", s.Name, err)
		}
		if err != nil { // there is no way back: the node stays on this generation
			creates := "`kollet upgrade`"
			if s.Origin == 0 {
				creates = t.node.Redeploy()
			}
			t.broken = errors.Join(t.broken, fmt.Errorf("promote %s: %w; %s creates a new container", s.Name, err, creates))
		}
	}
	if err := t.node.Store().SetCurrent(t.to.Number); err != nil {
		return err
	}
	if _, err = Collect(ctx, t.node, t.to); err != nil {
		return err
	}
	if err := fetch.UsePrefetched(t.node, t.to); err != nil { // after what frees disk space
		return err
	}
	return t.unquiesce(ctx)
}

// belongs reports whether a container is that of a generation's service.
func belongs(g generation.Generation, c containers.Container) bool {
	s, ok := g.Service(c.Spec.Labels[node.LabelService])
	return ok && c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(s.Origin)
}

// demote takes the plain name and the restart policy from a container that was
// replaced, closes its gate, and stops it if it runs. What remains of a container that the engine
// could not remove can keep both: it does not run.
func (t *transaction) demote(ctx context.Context, c containers.Container) error {
	name := c.Spec.Labels[node.LabelService]
	if !c.State.Stopped() {
		if err := t.node.Hold(ctx, c); err != nil {
			return fmt.Errorf("stop the old %s: %w", name, err)
		}
		// Its policy before the stop: an engine that is restarted after it would start it
		// again. If this fails, the update below tries again.
		if err := t.node.Engine.Update(ctx, c.ID, c.Spec.Name, containers.RestartNo); unanswering(err) {
			return fmt.Errorf("stop the old %s: %w", name, err)
		}
		if err := stopSafely(ctx, t.node, c, madeFor(t.node, t.from, c)); err != nil {
			return fmt.Errorf("stop the old %s: %w", name, err)
		}
	}
	if node.IsAdopted(c) {
		return t.node.KeepStopped(ctx, c)
	}
	closeGate(t.node, c)
	cleanGate(ctx, t.node, c)
	staged := c.Spec.Name
	if number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration]); err == nil {
		staged = node.StagedName(name, number)
	}
	// A name that it keeps is drift of its successor, which nothing would repair but an upgrade.
	err := persist(ctx, func() error { return t.node.Engine.Update(ctx, c.ID, staged, containers.RestartNo) })
	if err != nil && !unanswering(err) {
		t.node.Note(name, "%v", err)
		return nil
	}
	return err
}

// madeFor returns the service that a container was created for, from a generation that
// is known or from the container's own. If neither has it any longer, guests that run in
// the container are kept.
func madeFor(n *node.Node, known generation.Generation, c containers.Container) generation.Service {
	s := recorded(n, known, c)
	if s.Guests == nil && n.Hosts()(node.GenerationOf(c), s.Name) {
		s.Guests = &nodefile.Guests{}
	}
	return s
}

// madeBefore is madeFor for a container that ran before a member's cutover, and may have been
// created manually.
func (t *transaction) madeBefore(m member, c containers.Container) generation.Service {
	if c.Spec.Labels[node.LabelNode] != t.node.State() {
		return m.old
	}
	return madeFor(t.node, t.from, c)
}

// recorded returns the service that a container was created for, as far as there is a record.
func recorded(n *node.Node, known generation.Generation, c containers.Container) generation.Service {
	name := c.Spec.Labels[node.LabelService]
	if s, ok := known.Service(name); ok {
		return s
	}
	if number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration]); err == nil {
		if g, err := n.Store().Load(number); err == nil {
			if s, ok := g.Service(name); ok {
				return s
			}
		}
	}
	return generation.Service{Name: name, StopGracePeriod: unknownGrace, Guests: &nodefile.Guests{}}
}

// closeGate keeps a replaced container from running its service again, when anyone
// starts it.
func closeGate(n *node.Node, c containers.Container) {
	atGate(n, c, gate.Close)
}

// cleanGate removes what closeGate left, after the container has stopped.
func cleanGate(ctx context.Context, n *node.Node, c containers.Container) {
	atGate(n, c, func(dir string) error { return gate.Clean(ctx, dir) })
}

func atGate(n *node.Node, c containers.Container, do func(dir string) error) {
	number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
	if err == nil {
		err = do(n.Store().Gate(number, c.Spec.Labels[node.LabelService]))
	}
	if err != nil {
		n.Note("", "container %s: %v", c.Spec.Name, err)
	}
}

// promote gives a service's container, which is one of all, its plain name and its restart
// policy, and starts it if it does not run.
func (t *transaction) promote(ctx context.Context, s generation.Service, all []containers.Container) error {
	c, err := t.node.ContainerOf(all, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if s.Origin == 0 {
		return t.node.Return(ctx, c, true)
	}
	if err := t.evict(ctx, s, c.ID); err != nil {
		return err
	}
	if err := t.name(ctx, c, s); err != nil { // before, see startAgain
		return err
	}
	return t.node.Engine.Start(ctx, c.ID)
}

// name gives a container its service's plain name and restart policy. If it cannot have
// the name, for example because another container keeps it, it has to serve under its own.
func (t *transaction) name(ctx context.Context, c containers.Container, s generation.Service) error {
	update := func(name string) error { return t.node.Engine.Update(ctx, c.ID, name, s.Spec.Restart) }
	if c.Spec.Name == s.Name {
		return update(s.Name)
	}
	// A name that it keeps is drift, which nothing would repair but an upgrade.
	var away error // promote is tried again
	err := persist(ctx, func() error {
		err := update(s.Name)
		if unanswering(err) {
			away, err = err, nil
		}
		return err
	})
	if err == nil {
		return away
	}
	t.node.Note(s.Name, "its container keeps the name %s: %v", c.Spec.Name, err)
	return update(c.Spec.Name)
}

// evict removes a container that was created manually under a service's name: the cutover
// stopped it, or it came later. One that has guests loses its name only.
func (t *transaction) evict(ctx context.Context, s generation.Service, id string) error {
	other, err := t.node.Engine.Inspect(ctx, s.Name)
	if errors.Is(err, containers.ErrNotFound) || err == nil && (other.ID == id || other.Spec.Labels[node.LabelNode] != "") {
		return nil
	}
	if err != nil {
		return err
	}
	guests, err := t.strangers(other)
	if err != nil {
		return err
	}
	if len(guests) > 0 {
		return t.sendAway(ctx, s.Name, other, guests[0])
	}
	s.StopGracePeriod = 0
	if err := stopSafely(ctx, t.node, other, s); err != nil {
		return err
	}
	return t.noteEvicted(s.Name, "removed the container that was created manually under its name", t.node.Engine.Remove(ctx, other.ID))
}

// sendAway takes a service's name from a container with guests, and leaves it running.
func (t *transaction) sendAway(ctx context.Context, service string, c containers.Container, g guest.Guest) error {
	name := fmt.Sprintf("%s-%.12s", service, c.ID)
	said := fmt.Sprintf("warning: the container that was created manually under its name is %s now, and still runs, because guest %s (process %d) runs in it; migrate its guests or shut them down, then remove it",
		name, g.Name, g.PID)
	return t.noteEvicted(service, said, t.node.Engine.Update(ctx, c.ID, name, c.Spec.Restart))
}

// noteEvicted notes what became of a container that was created manually.
func (t *transaction) noteEvicted(service, said string, err error) error {
	switch {
	case unanswering(err):
		return err
	case err != nil:
		t.node.Note(service, "kept the container that was created manually under its name: %v", err)
	default:
		t.node.Note(service, "%s", said)
	}
	return nil
}
