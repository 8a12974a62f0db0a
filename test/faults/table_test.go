package faults

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// queue hands out attempts, and collects what came out of them.
type queue struct {
	mutex    sync.Mutex
	attempts []attempt
	until    time.Time // zero: no limit
	failed   int
	calls    map[string][]string // of each scenario without a fault
	rows     map[string]*row
	order    []string
	operator map[string]int // single faults after which an operator was asked for
	began    time.Time
}

// row of the table: one fault in one scenario.
type row struct {
	scenario, fault string
	planned         int
	injected        int
	missed          int // the command made fewer calls than without the fault
	status          map[int]int
	recovered       int // by kollet, to one of the two ends
	failed          int
}

// newQueue counts the calls of each scenario on a node, and shuffles every fault at every
// call.
func newQueue(t testing.TB, v *victim, s suite, seed uint64, limit time.Duration) *queue {
	t.Helper()
	q := &queue{calls: map[string][]string{}, rows: map[string]*row{}, operator: map[string]int{}, began: time.Now()}
	for _, scenario := range scenarios {
		for _, fault := range s.faults() {
			for _, lasting := range []bool{false, true} {
				a := attempt{scenario: scenario, fault: fault, lasting: lasting}
				calls := q.count(t, v, s, a)
				q.rows[a.key()] = &row{scenario: scenario.name, fault: a.what(), planned: calls, status: map[int]int{}}
				q.order = append(q.order, a.key())
				for n := range calls {
					a.at = n + 1
					q.attempts = append(q.attempts, a)
				}
			}
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	r.Shuffle(len(q.attempts), func(i, j int) { q.attempts[i], q.attempts[j] = q.attempts[j], q.attempts[i] })
	if limit > 0 {
		q.until = time.Now().Add(limit)
	}
	return q
}

// count returns for how many calls of a scenario a fault is possible.
func (q *queue) count(t testing.TB, v *victim, s suite, a attempt) int {
	t.Helper()
	calls, known := q.calls[a.scenario.name]
	if !known {
		r, err := v.try(uncounted{s}, a)
		if err != nil {
			t.Fatalf("%s without a fault: %v", a.scenario.name, err)
		}
		calls = r.calls
		q.calls[a.scenario.name] = calls
	}
	applies := s.trigger(a.fault, a.lasting).applies
	if applies == nil {
		return len(calls)
	}
	n := 0
	for _, call := range calls {
		if applies(call) {
			n++
		}
	}
	return n
}

// uncounted is a suite whose trigger counts all calls.
type uncounted struct{ suite }

func (uncounted) trigger(string, bool) *trigger { return &trigger{} }

func (a attempt) key() string { return a.scenario.name + ": " + a.what() }

func (q *queue) next() (attempt, bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if len(q.attempts) == 0 || q.failed >= most || !q.until.IsZero() && time.Now().After(q.until) {
		return attempt{}, false
	}
	a := q.attempts[0]
	q.attempts = q.attempts[1:]
	return a, true
}

func (q *queue) done(a attempt, r result, err error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	row := q.rows[a.key()]
	switch {
	case err != nil:
		row.failed++
		q.failed++
	case r.call == "":
		row.missed++
		return
	default:
		row.recovered++
	}
	row.injected++
	if r.status == 4 && !a.lasting {
		q.operator[fmt.Sprintf("%s, %s: %s", a.scenario.name, a.what(), r.call)]++
	}
	row.status[r.status]++
}

// table is what was injected, and what came out.
func (q *queue) table() string {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "in\tthe call\tpossible\tinjected\texit 0\t1\t4\tmissed\trecovered\tfailed")
	sum := row{scenario: "all", status: map[int]int{}}
	line := func(r *row) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", r.scenario, r.fault, r.planned, r.injected, r.status[0], r.status[1], r.status[4], r.missed, r.recovered, r.failed)
	}
	for _, key := range q.order {
		r := q.rows[key]
		line(r)
		sum.planned, sum.injected, sum.missed = sum.planned+r.planned, sum.injected+r.injected, sum.missed+r.missed
		sum.recovered, sum.failed = sum.recovered+r.recovered, sum.failed+r.failed
		for status, n := range r.status {
			sum.status[status] += n
		}
	}
	line(&sum)
	_ = w.Flush()
	fmt.Fprintf(&text, "in %v\n", time.Since(q.began).Round(time.Second))
	for _, call := range slices.Sorted(maps.Keys(q.operator)) {
		fmt.Fprintf(&text, "exit status 4: %s (%d)\n", call, q.operator[call])
	}
	return text.String()
}
