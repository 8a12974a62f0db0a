package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// retire stops and removes a container that nothing needs, and reports whether it is
// gone. If guests run from it, it is stopped and kept: also those that it starts until
// it has exited. One that the engine cannot stop or remove is noted and stays for the
// next garbage collection. s is the service that it was made for.
func retire(ctx context.Context, n *node.Node, c containers.Container, s generation.Service, pins node.Pins) (bool, error) {
	closeGate(n, c)
	s.StopGracePeriod = 0
	err := stopSafely(ctx, n, c, s)
	if err == nil {
		cleanGate(ctx, n, c)
	}
	if err == nil && c.PID > 0 {
		pins, err = n.Pins()
	}
	pinned := err == nil && pins.Container(c)
	if pinned {
		number, _ := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
		err = n.Engine.Update(ctx, c.ID, node.StagedName(c.Spec.Labels[node.LabelService], number), containers.RestartNo)
	} else if err == nil {
		err = n.Engine.Remove(ctx, c.ID)
	}
	if errors.Is(err, containers.ErrNotFound) {
		return true, nil
	}
	if err != nil && !unanswering(err) {
		n.Note("", "kept container %s: %v; `kollet gc` tries again", c.Spec.Name, err)
		return false, nil
	}
	return !pinned, err
}

// Garbage is what gc removed, and what it kept for guests.
type Garbage struct {
	Generations []int    `json:"generations"`
	Containers  []string `json:"containers"`
	Images      []string `json:"images"`
	Pinned      []string `json:"pinned"` // containers kept because guests run from them
}

// Collect drops what nothing needs: generations beyond those kept for a rollback,
// replaced containers, and images that only they used. The caller has locked the
// node.
func Collect(ctx context.Context, n *node.Node, current generation.Generation) (Garbage, error) {
	gone := Garbage{Generations: []int{}, Containers: []string{}, Images: []string{}, Pinned: []string{}}
	pins, err := n.Pins()
	if err != nil {
		return gone, err
	}
	all, err := n.Containers(ctx)
	if err != nil {
		return gone, err
	}
	for _, c := range all {
		switch {
		case belongs(current, c), node.IsAdopted(c): // a rollback to generation 0 needs them
		case pins.Container(c):
			gone.Pinned = append(gone.Pinned, c.Spec.Name)
		default:
			removed, err := retire(ctx, n, c, madeFor(n, current, c), pins)
			if err != nil {
				return gone, fmt.Errorf("remove container %s: %w", c.Spec.Name, err)
			}
			if removed {
				gone.Containers = append(gone.Containers, c.Spec.Name)
			}
		}
	}
	return gone, collectGenerations(ctx, n, current, pins, &gone)
}

// collectGenerations drops the generations beyond keep_generations and those that were
// rolled back, and with them the images that no other generation uses. A generation whose
// record cannot be read is kept, and so is every image and a record that names it: the
// unreadable one may need any of them.
func collectGenerations(ctx context.Context, n *node.Node, current generation.Generation, pins node.Pins, gone *Garbage) error {
	kept, err := n.Store().List()
	if err != nil {
		return err
	}
	var givenUp []int
	kept = slices.DeleteFunc(kept, func(number int) bool {
		if wasGivenUp(n, number) {
			givenUp = append(givenUp, number)
			return true
		}
		return number > current.Number
	})
	earlier := max(0, len(kept)-1-keepGenerations(n))
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	candidates, stays := setOf(prefetched.Left), setOf(prefetched.Images)
	var dropped []generation.Generation
	damaged := false
	for i, number := range slices.Concat(kept, givenUp) {
		g, err := n.Store().Load(number)
		if err != nil {
			damaged = true
			n.Note("", "kept generation %d and all images: %v; restore its manifest.json, or remove %s if no guest runs from it",
				number, err, n.Store().Path(number))
			continue
		}
		needed := i >= earlier && i < len(kept) || pins.Generation(number) ||
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
		collectImages(ctx, n, candidates, stays, gone)
	}
	for _, g := range dropped { // after its images, which its record names
		if err := n.Store().Remove(ctx, g.Number); err != nil {
			n.Note("", "kept generation %d: %v; `kollet gc` tries again", g.Number, err)
			continue
		}
		gone.Generations = append(gone.Generations, g.Number)
	}
	if err := n.Store().Sweep(ctx); err != nil {
		n.Note("", "kept files of earlier generations: %v; `kollet gc` tries again", err)
	}
	if damaged {
		return nil
	}
	return n.Store().SetPrefetched(generation.Prefetched{Images: prefetched.Images}) // after what frees disk space
}

// wasGivenUp reports whether a generation was rolled back. It was kept for guests that it
// had started, and nobody can roll back to it.
func wasGivenUp(n *node.Node, number int) bool {
	records, err := journal.Read(n.Journals(), number)
	return err == nil && journal.Ended(records) && !journal.HasCommitted(records)
}

func setOf(ids []string) map[string]bool {
	set := map[string]bool{}
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func collectImages(ctx context.Context, n *node.Node, candidates, stays map[string]bool, gone *Garbage) {
	for _, id := range slices.Sorted(maps.Keys(candidates)) {
		if stays[id] {
			continue
		}
		if err := n.Engine.RemoveImage(ctx, id); err != nil {
			n.Note("", "kept image %.19s: %v", id, err) // something else uses it
			continue
		}
		gone.Images = append(gone.Images, id)
	}
}

// keepGenerations is how many earlier generations the node file says to keep. If
// the node file cannot be read, all are kept.
func keepGenerations(n *node.Node) int {
	keep, err := nodefile.KeepGenerations(n.NodeFilePath())
	if err != nil {
		return 1 << 20
	}
	return keep
}
