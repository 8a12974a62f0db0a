package faults

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// powerTable is where the power was lost, and what came out.
type powerTable struct {
	rows   []*powerRow
	failed int
	began  time.Time
}

// powerRow is a command.
type powerRow struct {
	*logged
	flushes, between   int // power losses that are possible
	atFlush, inBetween int // that were replayed
	known              int // of these, which left the same files as another one
	old, new, failed   int
}

func newPowerTable(all []*logged, cuts []cut) *powerTable {
	t := &powerTable{began: time.Now()}
	for _, c := range all {
		t.rows = append(t.rows, &powerRow{logged: c})
	}
	for _, c := range cuts {
		if r := t.row(c); c.seed == 0 {
			r.flushes++
		} else {
			r.between++
		}
	}
	return t
}

func (t *powerTable) row(c cut) *powerRow {
	for _, r := range t.rows {
		if r.logged == c.logged {
			return r
		}
	}
	return nil
}

func (t *powerTable) add(c cut, ends string, known bool, err error) {
	r := t.row(c)
	if c.seed == 0 {
		r.atFlush++
	} else {
		r.inBetween++
	}
	if known {
		r.known++
	}
	switch {
	case err != nil:
		r.failed++
		t.failed++
	case ends == c.from:
		r.old++
	default:
		r.new++
	}
}

func (t *powerTable) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "in\twrites\trecords\tflushes\tpower lost there\tgroups of writes\tin which it was lost\tsame files as another\tends old\tnew\tfailed")
	for _, r := range t.rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.name, r.last-r.first, len(r.records), r.flushes, r.atFlush, r.between, r.inBetween, r.known, r.old, r.new, r.failed)
	}
	_ = w.Flush()
	fmt.Fprintf(&text, "in %v\n", time.Since(t.began).Round(time.Second))
	return text.String()
}
