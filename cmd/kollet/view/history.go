package view

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/kollet/kollet/agent"
)

// History shows the node's upgrades.
type History []agent.Entry

func (h History) text(t *text) {
	if len(h) == 0 {
		t.line("no history: this node has not been bootstrapped")
		return
	}
	var rows [][]string
	for _, e := range h {
		mark := ""
		switch {
		case e.Current:
			mark = "current"
		case e.Kept:
			mark = "kept"
		}
		if e.Problem != "" {
			mark += ", unreadable"
		}
		if e.Outcome == agent.Unreadable || e.Started.IsZero() {
			rows = append(rows, []string{strconv.Itoa(e.Generation), "", "", outcome(e), "", "", mark})
			continue
		}
		from := strconv.Itoa(e.From)
		if neverBegan(e) {
			from = ""
		}
		rows = append(rows, []string{strconv.Itoa(e.Generation), from, e.Reason, outcome(e), e.Started.UTC().Format(time.DateTime), shortDuration(time.Duration(e.Took)), mark})
	}
	t.table([]string{"GENERATION", "FROM", "REASON", "OUTCOME", "STARTED (UTC)", "TOOK", ""}, rows, func(row int) string {
		if h[row].Current {
			return green
		}
		return ""
	})
	for _, e := range h {
		if e.Outcome == agent.Unreadable {
			t.painted(red, "generation %d: %s", e.Generation, e.Why)
		}
		Entry(e).problem(t)
	}
}

// neverBegan reports that a recovery ended an upgrade whose beginning is not recorded.
func neverBegan(e agent.Entry) bool { return e.Reason == "" }

func outcome(e agent.Entry) string { return cmp.Or(string(e.Outcome), "not ended") }

// Entry shows one upgrade of the history.
type Entry agent.Entry

func (e Entry) text(t *text) {
	e.upgrade(t)
	e.problem(t)
	e.times(t)
}

// problem says why the record of the upgrade's generation cannot be read.
func (e Entry) problem(t *text) {
	if e.Problem != "" {
		t.painted(red, "%s", e.Problem)
	}
}

// upgrade says what the upgrade was and how it ended.
func (e Entry) upgrade(t *text) {
	if e.Outcome == agent.Unreadable {
		t.painted(red, "generation %d: %s", e.Generation, e.Why)
		return
	}
	if e.Started.IsZero() {
		t.line("generation %d: kollet or the machine died before the first record was written; `kollet recover` ends this upgrade", e.Generation)
		return
	}
	if neverBegan(agent.Entry(e)) {
		t.line("generation %d: kollet or the machine died before the first record was written", e.Generation)
	} else {
		t.line("generation %d, from %d: %s", e.Generation, e.From, e.Reason)
	}
	t.line("started %s (%s), took %s", e.Started.UTC().Format(time.DateTime+" MST"), t.age(e.Started), shortDuration(time.Duration(e.Took)))
	state := ""
	switch {
	case e.Current:
		state = "; it is the current generation"
	case e.Kept:
		state = "; it is kept for a rollback"
	}
	t.line("%s%s", outcome(agent.Entry(e)), state)
	t.hotfix(e.Hotfix)
	if e.Why != "" {
		t.painted(red, "%s", e.Why)
	}
	for _, w := range e.Warnings {
		t.painted(yellow, "warning: %s", w)
	}
}

// times are those of its steps, and its gaps. A journal that says nothing has none.
func (e Entry) times(t *text) {
	var rows [][]string
	for _, p := range e.Steps {
		rows = append(rows, []string{p.Step, shortDuration(time.Duration(p.Took))})
	}
	if len(rows) > 0 {
		t.WriteByte('\n')
		t.table([]string{"STEP", "TOOK"}, rows, nil)
	}
	rows = nil
	for _, service := range slices.Sorted(maps.Keys(e.Gaps)) {
		rows = append(rows, append([]string{service}, gapCells(e.Gaps, service)...))
	}
	if len(rows) > 0 {
		t.WriteByte('\n')
		t.table([]string{"SERVICE", "ENDED", "OPENED", "HEALTHY"}, rows, nil)
	}
}
