package view

import (
	"fmt"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
)

// Upgrade shows how a bootstrap, upgrade or rollback ended.
type Upgrade struct {
	upgrade.Result
	Seconds float64 `json:"seconds"` // from the command's start
}

func (u Upgrade) text(t *text) {
	if u.Outcome == journal.Unchanged {
		t.line("nothing to do: the node is on generation %d", u.To)
		t.hotfixes(u.Plan.Hotfixes)
		return
	}
	if len(u.Plan.Changes) > 0 {
		var rows [][]string
		for _, c := range u.Plan.Changes {
			rows = append(rows, append([]string{c.Service, string(c.Action)}, gapCells(u.Gaps, c.Service)...))
		}
		t.table([]string{"SERVICE", "ACTION", "ENDED", "OPENED", "HEALTHY"}, rows, nil)
	}
	took := shortDuration(time.Duration(u.Seconds * float64(time.Second)))
	switch {
	case u.Outcome != journal.Committed:
		t.line("%s: the node is on generation %d", u.Outcome, u.To)
	case u.From == 0:
		t.line("generation %d started in %s; %s", u.To, took, kept(u.Guests))
	default:
		t.line("generation %d replaced %d in %s; %s", u.To, u.From, took, kept(u.Guests))
	}
	if u.Outcome == journal.Committed { // no other outcome changes any
		t.hotfixes(u.Plan.Hotfixes)
	}
}

func kept(guests int) string {
	if guests == 0 {
		return "no guests were running"
	}
	return count(guests, "guest") + " kept running"
}

// gapCells returns a service's gap, in milliseconds after its old task was told to
// stop.
func gapCells(gaps map[string]journal.Gap, service string) []string {
	g, ok := gaps[service]
	if !ok {
		return []string{"-", "-", "-"}
	}
	return []string{ms(g.Ended), ms(g.Opened), ms(g.Healthy)}
}

func ms(value float64) string { return fmt.Sprintf("%.1fms", value) }

// Recovery shows what recover found and did.
type Recovery upgrade.Recovery

func (r Recovery) text(t *text) {
	if !r.Found {
		t.line("nothing to recover: no upgrade was interrupted")
		return
	}
	if r.Outcome == journal.Committed {
		t.line("the interrupted upgrade to generation %d had committed and is finished", r.To)
	} else {
		t.line("the upgrade from generation %d to %d was interrupted: %s", r.From, r.To, r.Outcome)
	}
	t.line("the node is on generation %d", r.Current)
}
