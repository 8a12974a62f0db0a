package upgrade

import (
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// An upgrade that was refused, or that found nothing to do, does not make the generation
// healthy on which the one before got stuck.
func TestEndedStuck(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []journal.Outcome // "": interrupted
		want     int               // the upgrade whose records are returned
	}{
		"no upgrade":            {nil, 0},
		"stuck":                 {[]journal.Outcome{journal.Committed, journal.Stuck}, 2},
		"refused since":         {[]journal.Outcome{journal.Stuck, journal.Discarded, journal.Deferred, journal.Unchanged}, 1},
		"upgraded since":        {[]journal.Outcome{journal.Stuck, journal.Committed, journal.Discarded}, 0},
		"rolled back since":     {[]journal.Outcome{journal.Stuck, journal.RolledBack}, 0},
		"interrupted since":     {[]journal.Outcome{journal.Stuck, ""}, 0},
		"never, though refused": {[]journal.Outcome{journal.Committed, journal.Discarded}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Root: t.TempDir(), Host: idle(t)}
			for i, outcome := range c.outcomes {
				j, err := journal.Create(n.Journals(), journal.Record{To: i + 1}, n.Host.Now)
				if err == nil && outcome != "" {
					err = j.Append(journal.Record{Event: journal.End, Outcome: outcome})
				}
				if err != nil {
					t.Fatal(err)
				}
				j.Close()
			}
			records, err := endedStuck(n)
			got := 0
			if len(records) > 0 {
				got = records[0].To
			}
			if err != nil || got != c.want {
				t.Errorf("upgrade %d, %v, want %d", got, err, c.want)
			}
		})
	}
}
