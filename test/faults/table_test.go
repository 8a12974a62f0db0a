package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table is what was injected, and what came out.
type table struct {
	rows     map[string]*row
	order    []string
	operator map[string]int // single faults after which an operator was asked for
	made     int            // attempts
	recorded int            // of them in earlier runs
	hits     int            // the faults in all of them
	began    time.Time
}

// row of the table: one fault in one scenario.
type row struct {
	in, fault string
	planned   int // 0: without end
	injected  int
	missed    int // the command made fewer calls than without the fault
	status    map[int]int
	old, new  int // recovered by kollet, to one of the two ends
	failed    int
}

// row returns the row of an attempt.
func (t *table) row(a attempt) *row {
	if t.rows[a.key()] == nil {
		t.rows[a.key()] = &row{in: a.in(), fault: a.last().String(), status: map[int]int{}}
		t.order = append(t.order, a.key())
	}
	return t.rows[a.key()]
}

func (t *table) add(f finished) {
	row := t.row(f.attempt)
	t.made++
	t.hits += f.hits
	switch {
	case f.err != nil:
		row.failed++
	case f.missed():
		row.missed++
		return
	case f.new:
		row.new++
	default:
		row.old++
	}
	row.injected++
	row.status[f.status]++
	if f.status == 4 && len(f.strikes) == 1 && !f.last().lasting {
		t.operator[fmt.Sprintf("%s: %s", f.key(), f.call)]++
	}
}

func (t *table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "in\tthe call\tpossible\tinjected\texit 0\t1\t4\tkilled\tends old\tnew\tfailed\tmissed")
	sum := row{in: "all", status: map[int]int{}}
	line := func(r *row) {
		possible := "any"
		if r.planned > 0 {
			possible = fmt.Sprint(r.planned)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.in, r.fault, possible, r.injected,
			r.status[0], r.status[1], r.status[4], r.status[-1], r.old, r.new, r.failed, r.missed)
	}
	for _, key := range t.order {
		r := t.rows[key]
		line(r)
		sum.planned, sum.injected, sum.missed = sum.planned+r.planned, sum.injected+r.injected, sum.missed+r.missed
		sum.old, sum.new, sum.failed = sum.old+r.old, sum.new+r.new, sum.failed+r.failed
		for status, n := range r.status {
			sum.status[status] += n
		}
	}
	line(&sum)
	_ = w.Flush()
	fmt.Fprintf(&text, "%d attempts in %v, and %d in earlier runs, with %d faults\n", t.made-t.recorded, time.Since(t.began).Round(time.Second), t.recorded, t.hits)
	for _, what := range slices.Sorted(maps.Keys(t.operator)) {
		fmt.Fprintf(&text, "exit status 4: %s (%d)\n", what, t.operator[what])
	}
	return text.String()
}
