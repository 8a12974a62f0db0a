package model

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/recordings"
)

func newVerifier(t *testing.T) Verifier {
	t.Helper()
	v, err := NewVerifier(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v Verifier) expect(t *testing.T, what string, records []journal.Record, want bool) {
	t.Helper()
	got, err := v.Allows(t.Context(), records, false)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if got == want {
		return
	}
	t.Errorf("%s: the model allows it: %v", what, got)
	for _, r := range records {
		t.Logf("%s %s %s", r.Event, r.Step, r.Outcome)
	}
}

// The model allows the journals of real upgrades that were killed, and of their
// recoveries.
func TestRecordings(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	for name, records := range recorded(t) {
		v.expect(t, name, records, true)
	}
}

// recorded returns the journals of the recordings. One that is the beginning of another
// is left out: if the model allows the other, it allows both.
func recorded(t *testing.T) map[string][]journal.Record {
	t.Helper()
	paths, err := filepath.Glob("../recordings/[1-9]*/*.txtar") // named after versions; others have no format
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	all := map[string][]journal.Record{}
	for _, path := range paths {
		points, err := recordings.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range points {
			dir := t.TempDir()
			if err := recordings.WriteState(dir, p.State); err != nil {
				t.Fatal(err)
			}
			numbers, err := journal.List(filepath.Join(dir, "journal"))
			if err != nil || len(numbers) == 0 {
				t.Fatalf("%s, point %d: no journal: %v", path, i+1, err)
			}
			for _, n := range numbers {
				records, err := journal.Read(filepath.Join(dir, "journal"), n)
				if err != nil {
					t.Fatal(err)
				}
				all[key(records)] = records
			}
		}
	}
	whole := map[string][]journal.Record{}
	for k, records := range all {
		prefix := false
		for other := range all {
			prefix = prefix || k != other && strings.HasPrefix(other, k)
		}
		if !prefix {
			whole[strings.ReplaceAll(strings.TrimSpace(k), "\n", ", ")] = records
		}
	}
	return whole
}

// key is what the model knows of a journal.
func key(records []journal.Record) string {
	var text strings.Builder
	for _, r := range records {
		fmt.Fprintf(&text, "%s %s %s\n", r.Event, r.Step, r.Outcome)
	}
	return text.String()
}

// step makes the records of an upgrade for the test below.
func step(kind journal.StepKind, services ...string) journal.Step {
	return journal.Step{Kind: kind, Services: services}
}

func did(events []journal.Event, steps ...journal.Step) (records []journal.Record) {
	for _, s := range steps {
		for _, e := range events {
			records = append(records, journal.Record{Event: e, Step: s})
		}
	}
	return records
}

var (
	does  = []journal.Event{journal.Intent, journal.Done}
	undid = []journal.Event{journal.Undo, journal.Undone}

	alpha = step(journal.CutOver, "alpha")
	pair  = step(journal.CutOver, "beta", "gamma")

	prepared = slices.Concat([]journal.Record{{Event: journal.Begin, To: 2}},
		did(does, step(journal.Check), step(journal.Pull), step(journal.Render), step(journal.Stage), step(journal.Check)))
	discarded  = did(undid, step(journal.Stage), step(journal.Render))
	cutOver    = did(does, alpha, pair)
	rolledBack = slices.Concat(did(undid, pair, alpha), discarded, []journal.Record{{Event: journal.End, Outcome: journal.RolledBack}})
	verified   = did(does, step(journal.Verify))
	commit     = []journal.Record{{Event: journal.Commit}}
	committed  = []journal.Record{{Event: journal.End, Outcome: journal.Committed}}
	upgraded   = slices.Concat(prepared, cutOver, verified, commit, committed)
)

// What kollet may have left, and what it never may.
func TestVerifier(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	failed := []journal.Record{{Event: journal.Intent, Step: step(journal.Verify)}, {Event: journal.Failed, Step: step(journal.Verify), Note: "no"}}
	end := func(o journal.Outcome) []journal.Record { return []journal.Record{{Event: journal.End, Outcome: o}} }
	for name, c := range map[string]struct {
		records []journal.Record
		want    bool
	}{
		"an upgrade":                         {upgraded, true},
		"one that ended as an empty journal": {end(journal.Discarded), true},
		"one that rolled back":               {slices.Concat(prepared, cutOver, failed, rolledBack), true},
		"one with a warning":                 {slices.Concat(prepared, []journal.Record{{Event: journal.Warning, Note: "x"}}, cutOver, verified), true},
		"one with nothing to do":             {slices.Concat(prepared, discarded, end(journal.Unchanged)), true},
		"one that recovered twice":           {slices.Concat(prepared, cutOver, did(undid, pair), rolledBack), true},
		"one that replaces nothing":          {slices.Concat(prepared, verified, commit, committed), true},
		"two commits":                        {slices.Concat(prepared, cutOver, verified, commit, commit), false},
		"back after the commit":              {slices.Concat(prepared, cutOver, verified, commit, rolledBack), false},
		"forward after a step back":          {slices.Concat(prepared, cutOver, did(undid, pair), verified, commit), false},
		"a commit that is not there":         {slices.Concat(prepared, cutOver, verified, committed), false},
		"a commit without verify":            {slices.Concat(prepared, cutOver, commit, committed), false},
		"cut over before it is staged":       {slices.Concat(prepared[:7], cutOver), false},
		"undone in the wrong order":          {slices.Concat(prepared, cutOver, failed, did(undid, alpha, pair)), false},
		"discarded, but cut over":            {slices.Concat(prepared, cutOver, failed, rolledBack[:len(rolledBack)-1], end(journal.Discarded)), false},
		"rolled back, but not undone":        {slices.Concat(prepared, cutOver, failed, end(journal.RolledBack)), false},
		"something after the end":            {slices.Concat(upgraded, discarded), false},
		"no beginning":                       {upgraded[1:], false},
	} {
		v.expect(t, name, c.records, c.want)
	}
	undone := slices.Concat(prepared, cutOver, failed, rolledBack[2:])
	if got, err := v.Allows(t.Context(), undone, true); err != nil || !got {
		t.Errorf("undone without a record on a full disk: %v, %v", got, err)
	}
	if _, err := v.Allows(t.Context(), []journal.Record{{Event: "begin"}, {Event: "intent", Step: step("dance")}}, false); err == nil {
		t.Error("a step that the model does not have is accepted")
	}
}

// A record that is missing, doubled or in the wrong place is noticed, wherever in a
// recording it is.
func TestMutatedRecordings(t *testing.T) {
	t.Parallel()
	v := newVerifier(t)
	mutations := 0
	for name, records := range recorded(t) {
		for i := range len(records) - 1 {
			mutated := map[string][]journal.Record{
				"doubled": slices.Concat(records[:i+1], records[i:]),
				"missing": slices.Concat(records[:i], records[i+1:]),
				"swapped": slices.Concat(records[:i], []journal.Record{records[i+1], records[i]}, records[i+2:]),
			}
			for how, m := range mutated {
				if allowed(records, i, how) {
					continue
				}
				mutations++
				v.expect(t, name+": record "+strconv.Itoa(i+1)+" "+how, m, false)
			}
		}
	}
	if mutations < 100 {
		t.Errorf("only %d mutations", mutations)
	}
}

// allowed reports whether a mutation makes another journal that kollet may leave: a
// kill prevented a record, and recovery followed; or it made recovery begin again.
func allowed(records []journal.Record, i int, how string) bool {
	r, next := records[i], records[i+1]
	switch how {
	case "missing":
		return r.Event == journal.Failed || r.Event == journal.Done && next.Event == journal.Undo
	case "doubled":
		return r.Event == journal.Undo && records[i-1].Event != journal.Undone
	}
	return false
}
