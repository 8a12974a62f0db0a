package faults

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/faults/progress"
	"github.com/kollet/kollet/test/nodetest"
)

// imagined is a suite whose attempts nobody makes.
type imagined struct{ callsFail }

func (imagined) faults() []fault                      { return onceAndForGood("fails") }
func (imagined) applies(scenario, fault, string) bool { return true }

func (s imagined) again(r *rand.Rand, a attempt, calls []string) []strike {
	return againAfter(r, s, a, calls)
}

func (imagined) run(*victim, fault, *trigger, []string) nodetest.Outcome { return nodetest.Outcome{} }

// run is one with a progress file.
type run struct {
	suite
	path   string
	seed   uint64
	number int // of attempts after which the run ends, while the next one is under way
	comes  func(attempt) (hits int, err error)
}

// imagine makes the attempts of a run.
func (r run) imagine(t *testing.T) (made []attempt, table string) {
	t.Helper()
	return r.imaginePart(t, part{})
}

// imaginePart does the same for a part of the plan.
func (r run) imaginePart(t *testing.T, of part) (made []attempt, table string) {
	t.Helper()
	file, err := progress.Open(r.path, progress.Program{}, false)
	check(t, err)
	defer file.Close()
	q := newQueue(r.suite, newEarlier(file, "TestImagined/engine", r.scenarios()), r.seed, of, 0)
	calls := []string{"one", "two", "three"}
	for a, ok := q.next(); ok; a, ok = q.next() {
		if made = append(made, a); len(made) > r.number {
			break
		}
		f := finished{attempt: a, result: result{call: "one", calls: calls, status: 1, first: time.Second}}
		if a.last().at > 0 {
			f.hits, f.err = r.comes(a)
		}
		check(t, q.done(f))
	}
	return made, q.table.String()
}

// Four scenarios of three calls, each with two faults. After those that last, there is one more.
const imaginedCounts, imaginedAttempts = 4, 4 * 3 * (1 + 2)

// all is that every fault of an attempt happens.
func all(a attempt) (int, error) { return len(a.strikes), nil }

func TestAttemptsContinue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	seen := map[string]bool{}
	for i, number := range []int{2, 5, 12, 1, 1000} { // the first ends while calls are counted
		made, table := run{imagined{}, path, uint64(i), number, all}.imagine(t)
		for k, a := range made {
			if underWay := k == number; seen[a.String()] && !underWay {
				t.Errorf("run %d made again: %s", i, a)
			} else if !underWay {
				seen[a.String()] = true
			}
		}
		if i == 4 && !strings.Contains(table, ", and 16 in earlier runs") {
			t.Errorf("the table does not have the earlier runs:\n%s", table)
		}
	}
	if len(seen) != imaginedCounts+imaginedAttempts {
		t.Errorf("%d attempts, want %d", len(seen), imaginedCounts+imaginedAttempts)
	}
	made, table := run{imagined{}, path, 9, 1000, all}.imagine(t)
	if len(made) > 0 || !slices.Contains(sums(table), "36") {
		t.Errorf("a run after all: %d attempts\n%s", len(made), table)
	}
}

func TestPartsMakeTheWhole(t *testing.T) {
	seen := map[string]int{}
	for _, text := range []string{"1/5", "2/5", "3/5", "4/5", "5/5"} {
		of, err := parse(text)
		check(t, err)
		r := run{imagined{}, filepath.Join(t.TempDir(), "progress"), 1, 1000, all}
		made, _ := r.imaginePart(t, of)
		for _, a := range made {
			if a.last().at > 0 {
				seen[a.scenario.name+a.strikes[0].String()+strconv.Itoa(a.strikes[0].at)]++
			}
		}
		if attempts := len(made) - imaginedCounts; attempts < imaginedAttempts/5-3 || attempts > imaginedAttempts/5+3 {
			t.Errorf("%s has %d of %d attempts", text, attempts, imaginedAttempts)
		}
	}
	if len(seen) != 4*3*2 {
		t.Errorf("%d faults in all parts, want %d", len(seen), 4*3*2)
	}
	for _, wrong := range []string{"1", "0/2", "3/2", "1/2/3", "-1/2", "one"} {
		if of, err := parse(wrong); err == nil {
			t.Errorf("%s is %v", wrong, of)
		}
	}
}

func TestOnceHasNoFaultsInRecoveries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	r := run{imagined{}, path, 1, 1000, all}
	made, _ := r.imaginePart(t, part{once: true})
	if i := slices.IndexFunc(made, func(a attempt) bool { return len(a.strikes) > 1 }); i >= 0 {
		t.Errorf("the attempt %s was made", made[i])
	}
	rest, _ := r.imagine(t)
	if len(made)+len(rest) != imaginedCounts+imaginedAttempts || len(rest) == 0 {
		t.Errorf("%d attempts, and %d that follow, want %d", len(made), len(rest), imaginedCounts+imaginedAttempts)
	}
}

// sums returns the table's last row.
func sums(table string) []string {
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "all ") {
			return strings.Fields(line)
		}
	}
	return nil
}

func TestFailedAttemptIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	chosen := attempt{upgrades, []strike{{fault{"fails", true}, 2}}}
	is := func(a attempt) bool { return a.String() == chosen.String() }
	fails := func(a attempt) (int, error) {
		if is(a) {
			return 1, errors.New("the guest is lost")
		}
		return all(a)
	}
	_, table := run{imagined{}, path, 1, 1000, fails}.imagine(t)
	if want := []string{"all", "35", "35", "0", "35", "0", "0", "34", "0", "1", "0"}; !slices.Equal(sums(table), want) {
		t.Errorf("got %v, want %v", sums(table), want)
	}
	made, table := run{imagined{}, path, 2, 1000, all}.imagine(t)
	if len(made) != 2 || !is(made[0]) || len(made[1].strikes) != 2 { // and what follows it
		t.Errorf("made again: %v", made)
	}
	if want := []string{"all", "36", "37", "0", "37", "0", "0", "36", "0", "1", "0"}; !slices.Equal(sums(table), want) {
		t.Errorf("got %v, want %v: the failure stays in the table", sums(table), want)
	}
}

func TestKillsContinue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	kills := func(wanted int) suite { return &momentSuite{lengths: map[string]time.Duration{}, wanted: wanted} }
	n := 0
	some := func(attempt) (int, error) { // one after the other has none to three kills
		n++
		return n % (depth + 1), nil
	}
	made, _ := run{kills(12), path, 1, 1000, some}.imagine(t)
	if want := len(killSuite{}.scenarios()) + 2*(depth+1) - 1; len(made) != want {
		t.Errorf("%d attempts for 12 kills, want %d", len(made), want)
	}
	first := made[len(made)-1]
	for _, s := range first.strikes {
		if limit := 1_200_000; s.at < 1 || s.at > limit || len(first.strikes) != depth {
			t.Errorf("the last attempt: %s", first)
		}
	}
	n = depth - 1
	made, table := run{kills(15), path, 1, 1000, some}.imagine(t)
	if len(made) != 1 || made[0].String() == first.String() {
		t.Errorf("for three more kills: %v", made)
	}
	if !strings.Contains(table, "1 attempts in") || !strings.Contains(table, ", and 7 in earlier runs, with 15 faults") {
		t.Errorf("the table does not have all kills:\n%s", table)
	}
}

func TestWhatIsRecordedIsRemembered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "progress")
	want := finished{
		attempt: attempt{recoversBack, []strike{{killedKollet, 3}, {lostEngine, 1}}},
		result:  result{hits: 2, call: "done pull", status: -1, new: true, first: 1500 * time.Millisecond},
		next:    []strike{{starvedOfAll, 4}}, node: 1, took: 3 * time.Second,
	}
	file, err := progress.Open(path, progress.Program{}, false)
	check(t, err)
	check(t, newEarlier(file, "TestKills/docker", nil).record(want))
	check(t, file.Close())
	file, err = progress.Open(path, progress.Program{}, false)
	check(t, err)
	defer file.Close()
	made := newEarlier(file, "TestKills/docker", killSuite{}.scenarios()).made[want.String()]
	if len(made) != 1 || made[0].String() != want.String() || !slices.Equal(made[0].next, want.next) {
		t.Fatalf("got %+v, want %+v", made, want)
	}
	got := made[0]
	if got.hits != want.hits || got.call != want.call || got.status != want.status || got.new != want.new || got.first != want.first || got.node != want.node || got.took != want.took {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestNoNodeWaitsForAttemptThatEndedItsTest(t *testing.T) {
	q := newQueue(imagined{}, newEarlier(nil, "TestImagined/engine", imagined{}.scenarios()), 1, part{}, 0)
	for range q.scenarios() {
		q.next()
	}
	more := make(chan bool)
	go func() {
		_, ok := q.next() // what comes next depends on those under way
		more <- ok
	}()
	go q.watched(runtime.Goexit)
	select {
	case ok := <-more:
		if ok {
			t.Error("got another attempt")
		}
	case <-time.After(time.Minute):
		t.Error("a node waits")
	}
}
