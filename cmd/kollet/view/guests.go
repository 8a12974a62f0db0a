package view

import (
	"strconv"
	"strings"

	"github.com/kollet/kollet/agent"
)

// Guests shows the node's guests.
type Guests []agent.Guest

func (g Guests) text(t *text) {
	if len(g) == 0 {
		t.line("no guests")
		return
	}
	var rows [][]string
	for _, guest := range g {
		stop := "survives"
		if len(guest.Exposed) > 0 {
			stop = "dies (" + strings.Join(guest.Exposed, ", ") + ")"
		}
		rows = append(rows, []string{guest.Name, guest.UUID, strconv.Itoa(guest.PID), strconv.Itoa(guest.Generation), guest.Container, guest.Image, stop})
	}
	t.table([]string{"GUEST", "UUID", "PID", "GENERATION", "RUNS FROM", "IMAGE", "IF STOPPED MANUALLY"}, rows, func(row int) string {
		if len(g[row].Exposed) > 0 {
			return yellow
		}
		return ""
	})
}
