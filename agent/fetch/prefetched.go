package fetch

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// KeepPrefetched records which images garbage collection must keep for the next
// upgrade: those that the current generation does not use. It never removes an image that
// kollet did not fetch and that no generation had, so that is not recorded.
func KeepPrefetched(n *node.Node, services []generation.Service, current generation.Generation) error {
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	earlier, err := generations(n)
	if err != nil {
		return err
	}
	var next []string
	for _, s := range services {
		collected := uses(earlier, s.Image.ID) || slices.Contains(slices.Concat(prefetched.Images, prefetched.Left), s.Image.ID)
		if s.Image.ID != "" && collected && !uses([]generation.Generation{current}, s.Image.ID) {
			next = append(next, s.Image.ID)
		}
	}
	return n.Store().SetPrefetched(prefetched.Next(next))
}

// generations reads those that are stored and can be read: as long as one cannot, no image is
// collected.
func generations(n *node.Node) ([]generation.Generation, error) {
	numbers, err := n.Store().List()
	if err != nil {
		return nil, err
	}
	var all []generation.Generation
	for _, number := range numbers {
		if g, err := n.Store().Load(number); err == nil {
			all = append(all, g)
		}
	}
	return all, nil
}

func uses(all []generation.Generation, image string) bool {
	return slices.ContainsFunc(all, func(g generation.Generation) bool {
		return slices.ContainsFunc(g.Services, func(s generation.Service) bool { return s.Image.ID == image })
	})
}

// recordFetched records that an image arrived that was not on this machine before. A
// generation that names it may never be committed.
func recordFetched(n *node.Node, id string) error {
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	return n.Store().SetPrefetched(prefetched.Fetched(id))
}

// UsePrefetched records that a generation now keeps its prefetched images itself.
func UsePrefetched(n *node.Node, g generation.Generation) error {
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	return n.Store().SetPrefetched(prefetched.Used(g))
}
