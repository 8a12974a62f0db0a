package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/quiesce"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// ailing is an engine whose one service says what is wrong with it.
type ailing struct {
	answering
	says  func(asked int) (string, error) // error: the command fails
	takes func(asked int) time.Duration
	runs  int
}

func (a *ailing) Exec(ctx context.Context, _ string, e containers.Exec) (int, error) {
	a.runs++
	if err := quiesce.Pause(ctx, a.takes(a.runs)); err != nil {
		return 0, fmt.Errorf("running problems: %w", err)
	}
	text, err := a.says(a.runs)
	if err != nil {
		_, _ = io.WriteString(e.Stderr, err.Error())
		return 1, nil
	}
	_, _ = io.WriteString(e.Stdout, text)
	return 0, nil
}

// lines are different problems.
func lines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, "port", i)
	}
	return b.String()
}

// An upgrade fails if a service has a problem afterwards that it did not have before.
func TestProblems(t *testing.T) {
	const after = "switch: it has problems that it did not have before the upgrade: "
	broken := fmt.Errorf("ovs-vsctl: no answer")
	for name, c := range map[string]struct {
		before, now string
		lasts       int // how often it says now; then it says what it said before
		every       int // it says now only each time of this number; 0: always
		fails       [2]bool
		takes       [2]time.Duration // how long an answer takes, before and afterwards
		took        time.Duration
		want        string
	}{
		"none":                    {took: 2 * time.Second},
		"one that was there":      {before: "port a\n", now: "port a\n", lasts: 100, took: 2 * time.Second},
		"one is gone":             {before: "port a\nport b\n", now: "port b\n", lasts: 100, took: 2 * time.Second},
		"one that comes and goes": {now: "port a\n", lasts: 100, every: 2, took: time.Minute, want: after + "port a"},
		"one that passes":         {now: "port a\n", lasts: 5, took: 7 * time.Second},
		"a new one":               {now: "port a\n", lasts: 100, took: time.Minute, want: after + "port a"},
		"a new one beside others": {before: "port b\n", now: "port b\nport \x1b[1ma\n", lasts: 100, took: time.Minute, want: after + "port a"},
		"many":                    {now: "1\n2\n3\n4\n5\n6\n7\n", lasts: 100, took: time.Minute, want: after + "1; 2; 3; 4; 5; and 2 more"},
		"no answer afterwards":    {fails: [2]bool{false, true}, took: time.Minute, want: "switch: list its problems: exit status 1: ovs-vsctl: no answer"},
		"no answer before":        {now: "port a\n", lasts: 100, fails: [2]bool{true, false}},
		"as many as are allowed":  {before: lines(1000), now: lines(1000), lasts: 100, took: 2 * time.Second},
		"too many":                {now: lines(1001), lasts: 100, took: time.Minute, want: "switch: list its problems: it printed more than 1000 lines"},
		"too many before":         {before: lines(1001), now: "port a\n", lasts: 100},
		"slow":                    {takes: [2]time.Duration{29 * time.Second, 29 * time.Second}, took: 89 * time.Second},
		"slow, one that passes":   {now: "port a\n", lasts: 2, takes: [2]time.Duration{0, 29 * time.Second}, took: 149 * time.Second},
		"slow, a new one":         {now: "port a\n", lasts: 100, takes: [2]time.Duration{0, 29 * time.Second}, took: 89 * time.Second, want: after + "port a"},
		"too slow before":         {now: "port a\n", lasts: 100, takes: [2]time.Duration{31 * time.Second, 0}},
		"too slow afterwards":     {takes: [2]time.Duration{0, 31 * time.Second}, took: 92 * time.Second, want: "switch: list its problems: it did not answer within 30s: running problems: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newCutoverNode(t)
				s := generation.Service{Name: "switch", Origin: 1, Problems: []string{"problems"}}
				n.node.Engine = &ailing{says: func(asked int) (string, error) {
					switch {
					case asked == 1 && c.fails[0] || asked > 1 && c.fails[1]:
						return "", broken
					case asked == 1 || asked > c.lasts+1 || c.every > 0 && asked%c.every != 0:
						return c.before, nil
					}
					return c.now, nil
				}, takes: func(asked int) time.Duration { return c.takes[min(asked, 2)-1] }}
				tx := newProblemsTransaction(t, n, generation.Service{Name: "switch", Origin: 2, Problems: s.Problems})
				if err := tx.noteProblems(t.Context()); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := tx.addsNoProblem(t.Context(), s)
				if got := fmt.Sprint(err); err != nil && got != c.want || err == nil && c.want != "" {
					t.Errorf("%v, want %q", err, c.want)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// A cutover concerns what it replaces, what depends on it, and what is of the same group.
func TestCutoverConcerns(t *testing.T) {
	replaced := group{{name: "db", new: generation.Service{Name: "db", Group: "switch"}}}
	for name, c := range map[string]struct {
		service generation.Service
		want    bool
	}{
		"itself":     {generation.Service{Name: "db"}, true},
		"dependent":  {generation.Service{Name: "controller", DependsOn: []string{"db"}}, true},
		"same group": {generation.Service{Name: "vswitchd", Group: "switch"}, true},
		"another":    {generation.Service{Name: "nova-compute", DependsOn: []string{"nova-libvirt"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := replaced.concerns(c.service); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// Services are asked once, before the first cutover: afterwards, what they say may be the
// upgrade's doing.
func TestProblemsBefore(t *testing.T) {
	s := generation.Service{Name: "controller", Origin: 1, DependsOn: []string{"db", "switch"}, Problems: []string{"problems"}}
	for name, c := range map[string]struct {
		first   string // what the service says; empty: it fails
		stopped bool
		want    string
	}{
		"answers":    {first: "port a\n", want: "controller: it has problems that it did not have before the upgrade: port b"},
		"fails":      {},
		"is stopped": {first: "port a\n", stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newCutoverNode(t)
				engine := &ailing{answering: answering{stopped: c.stopped}, takes: func(int) time.Duration { return 0 }}
				engine.says = func(asked int) (string, error) {
					if asked == 1 && c.first == "" {
						return "", errors.New("no answer")
					}
					if asked == 1 {
						return c.first, nil
					}
					return "port b\n", nil
				}
				n.node.Engine = engine
				tx := newProblemsTransaction(t, n, s, generation.Service{Name: "db", Origin: 2}, generation.Service{Name: "switch", Origin: 2})
				for range tx.groups() { // as before each cutover
					if err := tx.noteProblems(t.Context()); err != nil {
						t.Fatal(err)
					}
					engine.stopped = false
				}
				if want := map[bool]int{false: 1, true: 0}[c.stopped]; engine.runs != want {
					t.Errorf("asked %d times before, want %d", engine.runs, want)
				}
				if err := tx.addsNoProblem(t.Context(), s); err != nil && err.Error() != c.want || err == nil && c.want != "" {
					t.Errorf("%v, want %q", err, c.want)
				}
			})
		})
	}
}

// newProblemsTransaction is an upgrade to these services, all of which ran before.
func newProblemsTransaction(t *testing.T, n *cutoverNode, services ...generation.Service) *transaction {
	t.Helper()
	j, err := journal.Create(n.node.Journals(), journal.Record{To: 2}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	from := slices.Clone(services)
	for i := range from {
		from[i].Origin = 1
	}
	tx := newTransaction(n.node, j, generation.Generation{Number: 1, Services: from})
	tx.to, tx.target = generation.Generation{Number: 2, Services: services}, &target.Target{}
	return tx
}
