package view

import (
	"strconv"

	"github.com/kollet/kollet/agent/upgrade"
)

// Garbage shows what gc removed.
type Garbage upgrade.Garbage

func (g Garbage) text(t *text) {
	for _, n := range g.Generations {
		t.line("removed generation %s", strconv.Itoa(n))
	}
	for _, c := range g.Containers {
		t.line("removed container %s", c)
	}
	for _, i := range g.Images {
		t.line("removed image %s", i)
	}
	for _, c := range g.Pinned {
		t.line("kept container %s: guests run from it", c)
	}
	if len(g.Generations)+len(g.Containers)+len(g.Images) == 0 {
		t.line("nothing to remove")
	}
}
