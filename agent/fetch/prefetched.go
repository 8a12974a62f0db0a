package fetch

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// KeepPrefetched records which images garbage collection must keep for the next
// upgrade: those that the current generation does not use.
func KeepPrefetched(n *node.Node, services []generation.Service, current generation.Generation) error {
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	var next []string
	for _, s := range services {
		runs := slices.ContainsFunc(current.Services, func(old generation.Service) bool { return old.Image.ID == s.Image.ID })
		if s.Image.ID != "" && !runs {
			next = append(next, s.Image.ID)
		}
	}
	return n.Store().SetPrefetched(prefetched.Next(next))
}

// UsePrefetched records that a generation now keeps its prefetched images itself.
func UsePrefetched(n *node.Node, g generation.Generation) error {
	prefetched, err := n.Store().Prefetched()
	if err != nil {
		return err
	}
	return n.Store().SetPrefetched(prefetched.Used(g))
}
