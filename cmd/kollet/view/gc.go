package view

import (
	"strconv"

	"github.com/kollet/kollet/agent/upgrade"
)

// Garbage shows what gc dropped.
type Garbage upgrade.Garbage

func (g Garbage) text(t *text) {
	for _, n := range g.Generations {
		t.line("dropped generation %s", strconv.Itoa(n))
	}
	for _, c := range g.Containers {
		t.line("dropped container %s", c)
	}
	for _, i := range g.Images {
		t.line("dropped image %s", i)
	}
	for _, c := range g.Pinned {
		t.line("kept container %s: guests run from it", c)
	}
	if len(g.Generations)+len(g.Containers)+len(g.Images) == 0 {
		t.line("nothing to drop")
	}
}
