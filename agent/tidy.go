package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// tidy finishes what a commit began: names, restart policies, the current link,
// and the removal of what nothing needs any more. It may be done again, also on
// a machine that lost its power right after the commit and came up with the old
// containers.
func (t *transaction) tidy(ctx context.Context) error {
	all, err := t.Engine.List(ctx, t.Labels("", 0))
	if err != nil {
		return err
	}
	for _, c := range all {
		if t.belongs(t.to, c) {
			continue
		}
		if err := t.putAside(ctx, c); err != nil {
			return err
		}
	}
	for _, s := range t.to.Services {
		if err := t.settle(ctx, s); err != nil {
			return fmt.Errorf("settle %s: %w", s.Name, err)
		}
	}
	if err := t.Store().SetCurrent(t.to.Number); err != nil {
		return err
	}
	if err := t.useAhead(t.to); err != nil {
		return err
	}
	_, err = t.collect(ctx, t.to)
	return err
}

func (a *Agent) belongs(g generation.Generation, c containers.Container) bool {
	s, ok := g.Service(c.Spec.Labels[node.LabelService])
	return ok && c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(s.Origin)
}

// putAside takes name and restart policy from a container that was replaced,
// and stops it should it run.
func (t *transaction) putAside(ctx context.Context, c containers.Container) error {
	name := c.Spec.Labels[node.LabelService]
	number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
	if err != nil {
		return fmt.Errorf("container %s has no generation in its labels", c.Spec.Name)
	}
	if c.State == containers.StateRunning {
		s, _ := t.from.Service(name)
		if err := t.stopSafely(ctx, c, s); err != nil {
			return fmt.Errorf("stop the old %s: %w", name, err)
		}
	}
	return t.Engine.Update(ctx, c.ID, node.StagedName(name, number), containers.RestartNo)
}

// settle gives a service's container its plain name and its restart policy, and
// starts it should it not run.
func (t *transaction) settle(ctx context.Context, s generation.Service) error {
	c, err := t.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	if err := t.evict(ctx, s.Name, c.ID); err != nil {
		return err
	}
	if err := t.Engine.Start(ctx, c.ID); err != nil {
		return err
	}
	return t.Engine.Update(ctx, c.ID, s.Name, s.Spec.Restart)
}

// evict removes a container that somebody put in a service's place by hand. It
// was stopped in the cut over.
func (t *transaction) evict(ctx context.Context, name, id string) error {
	other, err := t.Engine.Inspect(ctx, name)
	if errors.Is(err, containers.ErrNotFound) || err == nil && (other.ID == id || other.Spec.Labels[node.LabelNode] != "") {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.Engine.Stop(ctx, other.ID, 0); err != nil {
		return err
	}
	t.Note(name, "removed the container that was put in its place by hand")
	return t.Engine.Remove(ctx, other.ID)
}

// retire stops and removes a container that nothing needs, or puts it aside for
// the guests that run from it.
func (a *Agent) retire(ctx context.Context, c containers.Container, pins node.Pins) error {
	if err := a.Engine.Stop(ctx, c.ID, 0); err != nil {
		return err
	}
	if pins.Container(c) {
		number, _ := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
		return a.Engine.Update(ctx, c.ID, node.StagedName(c.Spec.Labels[node.LabelService], number), containers.RestartNo)
	}
	return a.Engine.Remove(ctx, c.ID)
}

// Garbage is what gc removed, and what it kept for guests.
type Garbage struct {
	Generations []int    `json:"generations"`
	Containers  []string `json:"containers"`
	Images      []string `json:"images"`
	Pinned      []string `json:"pinned"` // containers kept because guests run from them
}

// GC drops what nothing needs: generations beyond those kept for a rollback,
// the containers that were replaced, and images that only they used.
func (a *Agent) GC(ctx context.Context) (Garbage, error) {
	unlock, err := a.Lock()
	if err != nil {
		return Garbage{}, err
	}
	defer unlock()
	if _, err := a.recover(ctx); err != nil {
		return Garbage{}, err
	}
	current, err := a.Store().Current()
	if err != nil {
		return Garbage{}, err
	}
	return a.collect(ctx, current)
}

func (a *Agent) collect(ctx context.Context, current generation.Generation) (Garbage, error) {
	gone := Garbage{Generations: []int{}, Containers: []string{}, Images: []string{}, Pinned: []string{}}
	pins, err := a.Pins()
	if err != nil {
		return gone, err
	}
	all, err := a.Engine.List(ctx, a.Labels("", 0))
	if err != nil {
		return gone, err
	}
	for _, c := range all {
		switch {
		case a.belongs(current, c):
		case pins.Container(c):
			gone.Pinned = append(gone.Pinned, c.Spec.Name)
		default:
			if err := a.retire(ctx, c, pins); err != nil {
				return gone, fmt.Errorf("remove container %s: %w", c.Spec.Name, err)
			}
			gone.Containers = append(gone.Containers, c.Spec.Name)
		}
	}
	return gone, a.collectGenerations(ctx, current, pins, &gone)
}

// collectGenerations drops the generations that fell out of keep, and with them
// the images that no other generation names. One whose record cannot be read is
// kept, and so is every image, with a record that names it: it may need any.
func (a *Agent) collectGenerations(ctx context.Context, current generation.Generation, pins node.Pins, gone *Garbage) error {
	kept, err := a.Store().List()
	if err != nil {
		return err
	}
	kept = slices.DeleteFunc(kept, func(n int) bool { return n > current.Number })
	earlier := max(0, len(kept)-1-a.keep())
	ahead, err := a.Store().Ahead()
	if err != nil {
		return err
	}
	candidates, stays := setOf(ahead.Left), setOf(ahead.Images)
	var dropped []generation.Generation
	damaged := false
	for i, number := range kept {
		g, err := a.Store().Load(number)
		if err != nil {
			damaged = true
			a.Note("", "generation %d stays, and with it all images: %v; put its manifest.json back, or remove %s if no guest runs from it",
				number, err, a.Store().Path(number))
			continue
		}
		needed := i >= earlier || pins.Generation(number) ||
			slices.ContainsFunc(current.Services, func(s generation.Service) bool { return s.Origin == number })
		if !needed {
			dropped = append(dropped, g)
		}
		for _, s := range g.Services {
			if needed {
				stays[s.Image.ID] = true
			} else {
				candidates[s.Image.ID] = true
			}
		}
	}
	if damaged {
		dropped = slices.DeleteFunc(dropped, func(g generation.Generation) bool {
			return slices.ContainsFunc(g.Services, func(s generation.Service) bool { return !stays[s.Image.ID] })
		})
	} else {
		a.collectImages(ctx, candidates, stays, gone)
		if err := a.Store().SetAhead(generation.Ahead{Images: ahead.Images}); err != nil {
			return err
		}
	}
	for _, g := range dropped { // after its images: their names stand in it
		if err := a.Store().Remove(g.Number); err != nil {
			return err
		}
		gone.Generations = append(gone.Generations, g.Number)
	}
	return nil
}

func setOf(ids []string) map[string]bool {
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func (a *Agent) collectImages(ctx context.Context, candidates, stays map[string]bool, gone *Garbage) {
	for _, id := range slices.Sorted(maps.Keys(candidates)) {
		if stays[id] {
			continue
		}
		if err := a.Engine.RemoveImage(ctx, id); err != nil {
			a.Note("", "image %.19s stays: %v", id, err) // something else uses it
			continue
		}
		gone.Images = append(gone.Images, id)
	}
}

// keep is how many earlier generations stay, as the node file says; what cannot
// be read now drops nothing.
func (a *Agent) keep() int {
	keep, err := nodefile.Keep(a.NodeFilePath())
	if err != nil {
		return 1 << 20
	}
	return keep
}
