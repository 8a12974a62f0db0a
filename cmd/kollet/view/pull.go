package view

import (
	"slices"
	"strings"

	"github.com/kollet/kollet/agent"
)

// Pulled shows the images of the next upgrade.
type Pulled agent.Pulled

func (p Pulled) text(t *text) {
	if !slices.ContainsFunc(p.Images, func(i agent.PulledImage) bool { return i.New }) {
		t.line("nothing to pull: all images of the next upgrade are on this machine")
		return
	}
	var rows [][]string
	for _, i := range p.Images {
		state := "present"
		if i.New {
			state = "pulled"
		}
		rows = append(rows, []string{i.Ref, state, strings.Join(i.Services, ", ")})
	}
	t.table([]string{"IMAGE", "", "SERVICES"}, rows, nil)
}
