package recordings

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
)

// refused are the sets that this version refuses to recover: that of a version
// before formats had numbers.
var refused = []string{"d6ace23"}

// eachPoint calls test with every point of every set.
func eachPoint(t *testing.T, test func(t *testing.T, set string, p Point)) {
	paths, err := filepath.Glob("*/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	for _, path := range paths {
		points, err := Read(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range points {
			set := filepath.Dir(path)
			t.Run(fmt.Sprintf("%s/%02d", strings.TrimSuffix(path, ".txtar"), i+1), func(t *testing.T) { test(t, set, p) })
		}
	}
}

// recordedNode is a node as it was recorded.
type recordedNode struct {
	*agent.Agent
	node   node.Node
	engine *engine
}

func restore(t *testing.T, p Point) recordedNode {
	t.Helper()
	root, machine := t.TempDir(), t.TempDir()
	n := node.Node{
		Root: root, Name: "compute-1", Version: "test", Command: "recover",
		Host: host.Host{Root: machine, Proc: machine, Sys: machine, Run: machine, Now: time.Now},
	}
	if err := WriteState(n.State(), p.State); err != nil {
		t.Fatal(err)
	}
	e := newEngine(n.State(), p.Containers)
	n.Engine = e
	return recordedNode{agent.New(n), n, e}
}

// This version recovers a node from every kill point of every set, to the state in
// which the version that recorded it recovered the node.
func TestRecover(t *testing.T) {
	eachPoint(t, func(t *testing.T, set string, p Point) {
		if slices.Contains(refused, set) {
			t.Skip("refused, see TestRefuse")
		}
		n := restore(t, p)
		got := recoverWhole(t, n)
		if end := (End{got.Found, string(got.Outcome), got.Current, Containers(n.engine.all())}); !reflect.DeepEqual(end, p.End) {
			t.Errorf("got  %+v\nwant %+v", end, p.End)
		}
	})
}

// A power loss may also leave an incomplete last record, which is ignored: an
// upgrade whose commit record is incomplete has not committed.
func TestRecoverTorn(t *testing.T) {
	const name = "journal/000002.jsonl"
	eachPoint(t, func(t *testing.T, set string, p Point) {
		if slices.Contains(refused, set) {
			t.Skip("refused, see TestRefuse")
		}
		p.State = maps.Clone(p.State)
		text := p.State[name]
		rest := text[:strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n")+1]
		p.State[name] = text[:(len(rest)+len(text))/2]
		want := 1
		if strings.Contains(rest, `"event":"commit"`) {
			want = 2
		}
		n := restore(t, p)
		if got := recoverWhole(t, n); !got.Found || got.Current != want {
			t.Errorf("got %+v, want generation %d", got, want)
		}
	})
}

// recoverWhole recovers a node. Afterwards its records and the engine must agree on
// one generation, and a second recovery must find nothing to do.
func recoverWhole(t *testing.T, n recordedNode) upgrade.Recovery {
	t.Helper()
	r, err := n.Recover(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	current, err := n.node.Current()
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]bool{}
	for _, c := range Containers(n.engine.all()) {
		s, ok := current.Service(c.Service)
		if !ok || running[c.Service] || !c.Running || c.Name != c.Service || c.Generation != strconv.Itoa(s.Origin) || c.Restart != s.Spec.Restart {
			t.Errorf("generation %d does not have container %+v", current.Number, c)
		}
		running[c.Service] = true
	}
	if len(running) != len(current.Services) {
		t.Errorf("generation %d runs only %v", current.Number, running)
	}
	numbers, err := journal.List(n.node.Journals())
	if err != nil {
		t.Fatal(err)
	}
	records, err := journal.Read(n.node.Journals(), numbers[len(numbers)-1])
	if err != nil || !journal.Ended(records) {
		t.Errorf("the journal has not ended: %+v, %v", records, err)
	}
	idle(t, n, func() error {
		again, err := n.Recover(t.Context(), 0)
		if again.Found || again.Current != r.Current {
			t.Errorf("recovered again: %+v", again)
		}
		return err
	})
	return r
}

// idle calls a function that must change neither the state nor the engine.
func idle(t *testing.T, n recordedNode, do func() error) {
	t.Helper()
	before, err := ReadState(n.node.State())
	if err != nil {
		t.Fatal(err)
	}
	n.engine.changes = nil
	if err := do(); err != nil {
		t.Error(err)
	}
	after, err := ReadState(n.node.State())
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(before, after) || len(n.engine.changes) > 0 {
		t.Errorf("something was changed: %v", n.engine.changes)
	}
}

// This version refuses a set that it cannot read. Recovery, and every other command
// that would change the node, names the file, the last step and the writer, and
// changes nothing.
func TestRefuse(t *testing.T) {
	eachPoint(t, func(t *testing.T, set string, p Point) {
		if !slices.Contains(refused, set) {
			t.Skip("recovered, see TestRecover")
		}
		n := restore(t, p)
		for name, command := range map[string]func() error{
			"recover":  func() error { _, err := n.Recover(t.Context(), 0); return err },
			"gc":       func() error { _, err := n.GC(t.Context()); return err },
			"rollback": func() error { _, err := n.Rollback(t.Context(), 0, upgrade.Options{}); return err },
		} {
			idle(t, n, func() error {
				refusal(t, name, p, command())
				return nil
			})
		}
		// It only shows, and marks what it cannot read.
		entries, err := n.History()
		if err != nil || len(entries) == 0 {
			t.Errorf("history: %+v, %v", entries, err)
		}
		for _, e := range entries {
			if e.Outcome != agent.Unreadable || !strings.Contains(e.Why, "no format number") || (e.Current || e.Kept) && !strings.Contains(e.Problem, "no format number") {
				t.Errorf("history: %+v", e)
			}
		}
	})
}

// If another version wrote the record of the generation before, recovery after a
// commit is refused before anything is changed: an incomplete last line stays in the
// journal.
func TestRefuseRecord(t *testing.T) {
	const manifest, name = "generations/000001/manifest.json", "journal/000002.jsonl"
	eachPoint(t, func(t *testing.T, set string, p Point) {
		if slices.Contains(refused, set) || !p.End.Found || p.End.Current != 2 {
			t.Skip("refused anyway, or not after a commit")
		}
		p.State = maps.Clone(p.State)
		delete(p.State, "current -> generations/000001")
		p.State["current -> generations/000002"] = ""
		p.State[manifest] = strings.Replace(p.State[manifest], `"format": 1`, `"format": 9`, 1)
		p.State[name] += `{"time":`
		n := restore(t, p)
		_, err := n.Recover(t.Context(), 0)
		if _, ok := errors.AsType[*format.UnknownError](err); !ok {
			t.Errorf("recover: %v", err)
		}
		data, err := os.ReadFile(filepath.Join(n.node.State(), name))
		if err != nil || !strings.HasSuffix(string(data), `{"time":`) || len(n.engine.changes) > 0 {
			t.Errorf("something was changed: %v, %v\n%s", err, n.engine.changes, data)
		}
	})
}

// A rollback needs no record of the generation that is given up: whether that is
// damaged, or cannot be read at all, the engine is asked for the same in the same order.
func TestRecoverWithoutRecord(t *testing.T) {
	const manifest = "generations/000002/manifest.json"
	eachPoint(t, func(t *testing.T, set string, p Point) {
		text, exists := p.State[manifest]
		if slices.Contains(refused, set) || !p.End.Found || p.End.Current != 1 || !exists {
			t.Skip("refused anyway, not rolled back, or without a record")
		}
		whole := restore(t, p)
		if _, err := whole.Recover(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		for name, damaged := range map[string]string{"torn": text[:len(text)/2], "empty": "", "another number": strings.Replace(text, `"number": 2`, `"number": 9`, 1)} {
			p.State = maps.Clone(p.State)
			p.State[manifest] = damaged
			n := restore(t, p)
			got, err := n.Recover(t.Context(), 0)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !slices.Equal(n.engine.changes, whole.engine.changes) {
				t.Errorf("%s: the engine was asked for\n%q\nwant\n%q", name, n.engine.changes, whole.engine.changes)
			}
			if end := (End{got.Found, string(got.Outcome), got.Current, Containers(n.engine.all())}); !reflect.DeepEqual(end, p.End) {
				t.Errorf("%s: got  %+v\nwant %+v", name, end, p.End)
			}
		}
	})
}

// Whatever recovery reads is checked before the first change, wherever the upgrade
// was interrupted: the new generation's record, and the prefetched images.
func TestRefuseBeforeChanges(t *testing.T) {
	const manifest, prefetched = "generations/000002/manifest.json", "prefetched.json"
	eachPoint(t, func(t *testing.T, set string, p Point) {
		if slices.Contains(refused, set) || !p.End.Found {
			t.Skip("refused anyway, or nothing to recover")
		}
		for _, file := range []string{manifest, prefetched} {
			p := p
			p.State = maps.Clone(p.State)
			if _, exists := p.State[file]; file == manifest && !exists {
				continue
			}
			p.State[file] = strings.Replace(p.State[file], `"format": 1`, `"format": 9`, 1)
			if file == prefetched {
				p.State[file] = `{"format": 9}`
			}
			n := restore(t, p)
			_, err := n.Recover(t.Context(), 0)
			var unknown *format.UnknownError
			if _, ok := errors.AsType[node.NeedsOperator](err); !ok || !errors.As(err, &unknown) || !strings.HasSuffix(unknown.File, file) {
				t.Errorf("%s of another format: %v", file, err)
			}
			if len(n.engine.changes) > 0 {
				t.Errorf("%s of another format: changed %v", file, n.engine.changes)
			}
		}
	})
}

func refusal(t *testing.T, command string, p Point, err error) {
	t.Helper()
	var unknown *format.UnknownError
	if !errors.As(err, &unknown) {
		t.Errorf("%s: %v", command, err)
		return
	}
	words := []string{unknown.File, "no format number", "written by", "use th"}
	if command == "recover" {
		if _, ok := errors.AsType[node.NeedsOperator](err); !ok {
			t.Errorf("%s does not ask for an operator: %v", command, err)
		}
		words = append(words, "journal/000002.jsonl")
		if strings.Contains(p.State["journal/000002.jsonl"], `"step":"stage"`) {
			words = append(words, "last step: ")
		}
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %q is missing in: %v", command, word, err)
		}
	}
}
