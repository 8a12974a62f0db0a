package fetch

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// KeepPrefetched notes which images garbage collection must leave to the next
// upgrade: those that the running generation does not have itself.
func KeepPrefetched(n *node.Node, services []generation.Service, current generation.Generation) error {
	ahead, err := n.Store().Ahead()
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
	return n.Store().SetAhead(ahead.Next(next))
}

// UsePrefetched notes that a generation keeps what was pulled ahead of it.
func UsePrefetched(n *node.Node, g generation.Generation) error {
	ahead, err := n.Store().Ahead()
	if err != nil {
		return err
	}
	return n.Store().SetAhead(ahead.Used(g))
}
