package faults

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// queue hands out the attempts of a suite to nodes, and collects what came out of them.
// First come those that count the calls of each scenario, without a fault. Then a row of
// the table is drawn, and one of its attempts, until all were made or the time is over.
// What earlier runs made is not made again, unless it failed.
type queue struct {
	suite
	earlier *earlier
	part    part
	limit   time.Duration // 0: none

	mutex    sync.Mutex
	changed  *sync.Cond
	random   *rand.Rand
	counting []attempt // not begun
	counted  map[string][]string
	busy     int // attempts under way, which others may follow
	waiting  map[string][]attempt
	until    time.Time // zero: no limit
	failed   int       // in this run
	table
}

func newQueue(s suite, e *earlier, seed uint64, of part, limit time.Duration) *queue {
	q := &queue{suite: s, earlier: e, part: of, limit: limit, random: rand.New(rand.NewPCG(seed, uint64(len(e.made)))), counted: map[string][]string{}, waiting: map[string][]attempt{}}
	q.changed = sync.NewCond(&q.mutex)
	q.table = table{rows: map[string]*row{}, operator: map[string]int{}, began: time.Now()}
	for _, s := range q.scenarios() {
		a := attempt{scenario: s, strikes: []strike{{}}}
		if i := slices.IndexFunc(e.made[a.String()], succeeded); i >= 0 {
			q.counted[s.name] = e.made[a.String()][i].calls
		} else {
			q.counting = append(q.counting, a)
		}
	}
	if len(q.counting) == 0 {
		q.plan()
	}
	return q
}

func succeeded(f finished) bool { return f.err == nil }

// next returns an attempt to make. While there is none, but others under way may be
// followed by one, it waits.
func (q *queue) next() (attempt, bool) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	for {
		if q.failed >= most || !q.until.IsZero() && time.Now().After(q.until) {
			return attempt{}, false
		}
		if len(q.counting) > 0 {
			a := q.counting[0]
			q.counting = q.counting[1:]
			q.busy++
			return a, true
		}
		if len(q.counted) == len(q.scenarios()) {
			if a, ok := q.draw(); ok {
				q.busy++
				return a, true
			}
		}
		if q.busy == 0 {
			return attempt{}, false
		}
		q.changed.Wait()
	}
}

// draw removes an attempt, or has one drawn. If there are some with more than one fault, half of
// the draws are of these, which would hardly come in a part of the attempts otherwise.
func (q *queue) draw() (a attempt, ok bool) {
	if d, ok := q.suite.(drawn); ok && len(q.waiting) == 0 {
		return d.draw(q.random)
	}
	if len(q.waiting) == 0 {
		return a, false
	}
	keys := slices.Sorted(maps.Keys(q.waiting))
	longer := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return len(q.waiting[key][0].strikes) == 1 })
	if len(longer) > 0 && q.random.IntN(2) == 0 {
		keys = longer
	}
	key := keys[q.random.IntN(len(keys))]
	all := q.waiting[key]
	i := q.random.IntN(len(all))
	a = all[i]
	all[i] = all[len(all)-1]
	if q.waiting[key] = all[:len(all)-1]; len(all) == 1 {
		delete(q.waiting, key)
	}
	return a, true
}

// done takes what came out of an attempt. An error is that it cannot be recorded.
func (q *queue) done(f finished) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	defer q.changed.Broadcast()
	q.busy--
	f = q.learn(f)
	injected := f.last().at > 0
	if injected && f.err == nil && !f.missed() {
		f.next = q.again(q.random, f.attempt, f.calls)
	}
	switch {
	case injected:
		q.add(f)
		q.follow(f)
	case f.err == nil:
		if q.counted[f.scenario.name] = f.calls; len(q.counted) == len(q.scenarios()) {
			q.plan()
		}
	}
	err := q.earlier.record(f)
	if f.err != nil {
		q.failed++
	}
	if f.err != nil && !injected || err != nil { // nothing can be told about faults, or be continued
		q.failed = most
	}
	return err
}

// watched calls a function that makes an attempt. If it ends the test, the attempt is never
// done, and no node waits for it or begins another.
func (q *queue) watched(try func()) {
	returned := false
	defer func() {
		if returned {
			return
		}
		q.mutex.Lock()
		defer q.mutex.Unlock()
		q.failed = most
		q.changed.Broadcast()
	}()
	try()
	returned = true
}

// learn has a suite without a plan learn from an attempt.
func (q *queue) learn(f finished) finished {
	if d, ok := q.suite.(drawn); ok {
		return d.learn(f)
	}
	return f
}

// follow puts the attempts that follow one.
func (q *queue) follow(f finished) {
	if q.part.once {
		return
	}
	for _, s := range f.next {
		q.put(f.then(s))
	}
}

// part is one of several equal parts of a plan, counted from 1. The zero part is the whole plan.
type part struct {
	n, of int
	once  bool // without what follows an attempt
}

// has reports whether an attempt is in the part: the n-th of a plan, counted from 0.
func (p part) has(n int) bool { return p.of == 0 || n%p.of == p.n-1 }

// plan puts every fault at every call of every scenario, or a part of that.
func (q *queue) plan() {
	if _, ok := q.suite.(drawn); ok {
		q.recall()
	} else {
		planned := 0
		for _, s := range q.scenarios() {
			for _, f := range q.faults() {
				for n := range possible(q, s, f, q.counted[s.name]) {
					if q.part.has(planned) {
						q.put(attempt{scenario: s, strikes: []strike{{f, n + 1}}})
					}
					planned++
				}
			}
		}
	}
	if q.limit > 0 {
		q.until = time.Now().Add(q.limit)
	}
}

// recall learns from what earlier runs made.
func (q *queue) recall() {
	for _, f := range q.earlier.all {
		if f = q.learn(f); f.last().at > 0 {
			q.add(f)
			q.recorded++
		}
	}
}

// put plans an attempt. If earlier runs have made it, it is in the table, and what follows it is
// put.
func (q *queue) put(a attempt) {
	q.row(a).planned++
	made := q.earlier.made[a.String()]
	for _, f := range made {
		q.add(f)
		q.recorded++
	}
	if i := slices.IndexFunc(made, succeeded); i >= 0 {
		q.follow(made[i])
		return
	}
	q.waiting[a.key()] = append(q.waiting[a.key()], a)
}

// possible returns at how many of a command's calls a fault is possible.
func possible(s suite, in scenario, f fault, calls []string) int {
	n := 0
	for _, call := range calls {
		if s.applies(in, f, call) {
			n++
		}
	}
	return n
}

// anywhere returns a fault at one of a recovery's calls; none if it makes no calls.
func anywhere(r *rand.Rand, s suite, calls []string) []strike {
	f := s.faults()[r.IntN(len(s.faults()))]
	n := possible(s, scenario{args: recovery}, f, calls)
	if n == 0 {
		return nil
	}
	return []strike{{f, 1 + r.IntN(n)}}
}

// most is how many attempts may fail before an attack ends.
const most = 20

// work makes attempts on a node, which has a number, until there are none.
func (q *queue) work(t *testing.T, s suite, v *victim, node int) {
	for a, ok := q.next(); ok; a, ok = q.next() {
		begun := time.Now()
		var r result
		var err error
		q.watched(func() { r, err = v.try(s, a) })
		check(t, q.done(finished{attempt: a, result: r, err: err, node: node, took: time.Since(begun)}))
		if err == nil {
			continue
		}
		t.Errorf("%s (%s): %v", a, r.call, err)
		v.Clear()
		v = newVictim(t, v.engine, v.registry, v.port+2)
	}
}
