package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// birthTable is what was born, and what became of it.
type birthTable struct {
	rows  map[string]*birthRow
	order []string
	steps map[string]int // births by what kollet did
	began time.Time
}

// birthRow is one command, with what alpha was before it.
type birthRow struct {
	in       string
	manner   manner
	attempts int
	births   int
	last     int // of them after SIGTERM
	lost     int
	refused  int         // commands that touched nothing
	new      int         // attempts after which the node was on the new version
	status   map[int]int // of the commands; -1: killed
}

func newBirthTable() *birthTable {
	return &birthTable{rows: map[string]*birthRow{}, steps: map[string]int{}, began: time.Now()}
}

func (t *birthTable) row(l labour) *birthRow {
	key := l.scenario.name + string(l.from)
	if t.rows[key] == nil {
		t.rows[key] = &birthRow{in: l.scenario.name, manner: l.from, status: map[int]int{}}
		t.order = append(t.order, key)
	}
	return t.rows[key]
}

// add adds the births of an attempt with its journal.
func (t *birthTable) add(row *birthRow, all []birth, records []journal.Record) {
	row.births += len(all)
	row.lost += len(lost(all))
	for _, b := range all {
		if b.last {
			row.last++
		}
		t.steps[during(b.at, records)]++
	}
}

// during says what kollet did at a time.
func during(at time.Time, records []journal.Record) string {
	what := "before"
	for _, r := range records {
		if r.Time.After(at) {
			break
		}
		switch r.Event {
		case journal.Intent, journal.Undo:
			what = r.Step.Text(r.Event)
		case journal.Done, journal.Failed, journal.Undone:
			what = "after " + r.Step.Text(r.Event)
		case journal.Begin, journal.Commit, journal.End, journal.Warning:
			what = "after " + string(r.Event)
		}
	}
	return what
}

func (t *birthTable) total() int {
	sum := 0
	for _, r := range t.rows {
		sum += r.births
	}
	return sum
}

func (t *birthTable) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "in\tborn from\tattempts\tbirths\tafter SIGTERM\tlost\trefused\texit 0\t1\t4\tkilled\tends new")
	sum := birthRow{in: "all", status: map[int]int{}}
	line := func(r *birthRow) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.in, r.manner, r.attempts, r.births, r.last,
			r.lost, r.refused, r.status[0], r.status[1], r.status[4], r.status[-1], r.new)
	}
	for _, key := range slices.Sorted(slices.Values(t.order)) {
		r := t.rows[key]
		line(r)
		sum.attempts, sum.births, sum.last, sum.lost = sum.attempts+r.attempts, sum.births+r.births, sum.last+r.last, sum.lost+r.lost
		sum.refused, sum.new = sum.refused+r.refused, sum.new+r.new
		for status, n := range r.status {
			sum.status[status] += n
		}
	}
	line(&sum)
	_ = w.Flush()
	fmt.Fprintf(&text, "in %v\nborn", time.Since(t.began).Round(time.Second))
	steps := slices.Collect(maps.Keys(t.steps))
	slices.SortFunc(steps, func(a, b string) int { return t.steps[b] - t.steps[a] })
	for _, step := range steps {
		fmt.Fprintf(&text, " %s: %d;", step, t.steps[step])
	}
	return text.String()
}
