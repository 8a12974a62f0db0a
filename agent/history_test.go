package agent

import (
	"slices"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

func TestEntry(t *testing.T) {
	at := func(seconds int, r journal.Record) journal.Record {
		r.Time = time.Unix(1000, 0).Add(time.Duration(seconds) * time.Second)
		return r
	}
	e := entry(7, []journal.Record{
		at(0, journal.Record{Event: journal.Begin, From: 6, To: 7, Reason: "upgrade"}),
		at(1, journal.Record{Event: journal.Intent, Step: journal.Step{Kind: journal.Pull}}),
		at(2, journal.Record{Event: journal.Warning, Step: journal.Step{Kind: journal.Pull}, Note: "the disk is nearly full"}),
		at(4, journal.Record{Event: journal.Done, Step: journal.Step{Kind: journal.Pull}}),
		at(4, journal.Record{Event: journal.Intent, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}}),
		at(6, journal.Record{Event: journal.Failed, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}, Note: "the cause"}),
		at(7, journal.Record{Event: journal.Undo, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}}),
		at(9, journal.Record{Event: journal.Failed, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}, Note: "a consequence"}),
		at(60, journal.Record{Event: journal.Undo, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}}),
		at(61, journal.Record{Event: journal.Undone, Step: journal.Step{Kind: journal.CutOver, Services: []string{"a"}}}),
		at(62, journal.Record{Event: journal.End, Outcome: journal.RolledBack}),
	})
	want := []StepTime{{"pull", Seconds(3 * time.Second)}, {"cut over a (failed)", Seconds(2 * time.Second)}, {"cut over a (failed)", Seconds(2 * time.Second)}, {"undo cut over a", Seconds(time.Second)}}
	if !slices.Equal(e.Steps, want) || e.Why != "the cause" || e.Took != Seconds(62*time.Second) || e.From != 6 || e.Generation != 7 || e.Outcome != journal.RolledBack || e.Reason != "upgrade" || !slices.Equal(e.Warnings, []string{"the disk is nearly full"}) {
		t.Errorf("got %+v", e)
	}
	gaps := map[string]journal.Gap{"a": {Ended: 1}}
	e = entry(8, []journal.Record{at(0, journal.Record{Event: journal.Begin}), at(5, journal.Record{Event: journal.Commit, Gaps: gaps})})
	if e.Gaps["a"].Ended != 1 || e.Outcome != "" || e.Took != Seconds(5*time.Second) {
		t.Errorf("interrupted behind its commit: %+v", e)
	}
	// The clock was set back by hours, and then forward.
	e = entry(8, []journal.Record{
		at(9000, journal.Record{Event: journal.Begin}),
		at(9001, journal.Record{Event: journal.Intent, Step: journal.Step{Kind: journal.Pull}}),
		at(10, journal.Record{Event: journal.Done, Step: journal.Step{Kind: journal.Pull}}),
		at(11, journal.Record{Event: journal.Intent, Step: journal.Step{Kind: journal.Render}}),
		at(12, journal.Record{Event: journal.Done, Step: journal.Step{Kind: journal.Render}}),
		at(13, journal.Record{Event: journal.End, Outcome: journal.Committed}),
	})
	if !slices.Equal(e.Steps, []StepTime{{"pull", 0}, {"render", Seconds(time.Second)}}) || e.Took != 0 || e.Outcome != journal.Committed {
		t.Errorf("a clock that was set: %+v", e)
	}
	// A crash left an empty journal; recovery ended it.
	e = entry(9, []journal.Record{at(3, journal.Record{Event: journal.End, Outcome: journal.Discarded})})
	if e.Took != 0 || !e.Started.Equal(time.Unix(1003, 0)) || e.Outcome != journal.Discarded || len(e.Steps) > 0 {
		t.Errorf("an end alone: %+v", e)
	}
	if e := entry(9, nil); e.Generation != 9 || e.Took != 0 {
		t.Errorf("nothing: %+v", e)
	}
}
