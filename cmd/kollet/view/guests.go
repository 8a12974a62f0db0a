package view

import (
	"cmp"
	"fmt"
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
		now, next := qemuColumns(guest)
		rows = append(rows, []string{guest.Name, guest.UUID, strconv.Itoa(guest.PID), strconv.Itoa(guest.Generation), guest.Container, guest.Image, now, next, stop})
	}
	t.table([]string{"GUEST", "UUID", "PID", "GENERATION", "RUNS FROM", "IMAGE", "QEMU", "AFTER HARD REBOOT", "IF STOPPED MANUALLY"}, rows, func(row int) string {
		if len(g[row].Exposed) > 0 {
			return yellow
		}
		return ""
	})
	shown := map[string]bool{} // guests of one libvirt have the same
	for _, guest := range g {
		if shown[guest.Service] {
			continue
		}
		shown[guest.Service] = true
		if len(guest.Helpers) > 0 {
			t.line("kept with the guests when %s is replaced: %s", guest.Service, list(guest.Helpers))
		}
		if len(guest.Ending) > 0 {
			t.line("end with %s, as they serve no guest: %s", guest.Service, list(guest.Ending))
		}
	}
}

func list[T fmt.Stringer](all []T) string {
	var names []string
	for _, one := range all {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}

// qemuColumns shows the version numbers, and the distribution's packages only if
// they are all that differs.
func qemuColumns(g agent.Guest) (now, next string) {
	now, _, _ = strings.Cut(g.QEMU, " ")
	next, pkg, _ := strings.Cut(g.NextQEMU, " ")
	switch {
	case g.QEMU != "" && g.QEMU == g.NextQEMU:
		next = "same"
	case now == next && pkg != "":
		next = strings.Trim(pkg, "()")
	}
	return cmp.Or(now, "unknown"), cmp.Or(next, "unknown")
}
