package faults

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/faults/progress"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// The progress file of make chaos, and whether it is continued with another build.
const (
	progressVar = "KOLLET_CHAOS_PROGRESS"
	continueVar = "KOLLET_CHAOS_CONTINUE"
)

// earlier is what earlier runs made of a suite on an engine, and where this one is recorded.
type earlier struct {
	file          *progress.File // nil: nothing is recorded
	suite, engine string
	all           []finished
	made          map[string][]finished // the same by attempt
}

// openProgress opens the progress file, if one is asked for.
func openProgress(t *testing.T) *progress.File {
	t.Helper()
	path := os.Getenv(progressVar)
	if path == "" {
		return nil
	}
	if machine.Discarded(filepath.Dir(path)) {
		t.Fatalf("the progress file %s would be gone when the test's machine ends: use another directory", path)
	}
	file, err := progress.Open(path, program(t), os.Getenv(continueVar) != "")
	check(t, err)
	t.Cleanup(func() { check(t, file.Close()) })
	return file
}

// newEarlier returns what the progress file has of the suite and the engine that a test is named
// after.
func newEarlier(file *progress.File, test string, scenarios []scenario) *earlier {
	suite, engine, _ := strings.Cut(test, "/")
	e := &earlier{file: file, suite: suite, engine: engine, made: map[string][]finished{}}
	for _, a := range file.Of(suite, engine) {
		i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == a.Scenario })
		if i < 0 || len(a.Strikes) == 0 {
			continue // of another build, which is continued
		}
		f := remembered(a, scenarios[i])
		e.all = append(e.all, f)
		e.made[f.String()] = append(e.made[f.String()], f)
	}
	return e
}

// program identifies the kollet that is attacked.
func program(t *testing.T) progress.Program {
	t.Helper()
	path := nodetest.Program(t, "kollet")
	text, err := os.ReadFile(path)
	check(t, err)
	out, err := exec.Command(path, "version", "-o", "json").Output()
	check(t, err)
	var v struct{ Version, Commit string }
	check(t, json.Unmarshal(out, &v))
	return progress.Program{Version: fmt.Sprintf("%s (commit %s)", v.Version, v.Commit), Sum: fmt.Sprintf("%x", sha256.Sum256(text))[:12]}
}

// record records an attempt.
func (e *earlier) record(f finished) error {
	a := progress.Attempt{
		Suite: e.suite, Engine: e.engine, Node: f.node, Scenario: f.scenario.name, Strikes: written(f.strikes), Hits: f.hits,
		Call: f.call, Status: f.status, Next: written(f.next), First: f.first.Seconds(), Seconds: f.took.Seconds(),
	}
	switch {
	case f.err != nil:
		a.Failed = f.err.Error()
	case f.new:
		a.End = "new"
	default:
		a.End = "old"
	}
	if f.last().at == 0 {
		a.Calls = f.calls
	}
	return e.file.Add(a)
}

// remembered is the opposite of record.
func remembered(a progress.Attempt, s scenario) finished {
	f := finished{
		attempt: attempt{scenario: s, strikes: read(a.Strikes)},
		result:  result{hits: a.Hits, call: a.Call, calls: a.Calls, status: a.Status, new: a.End == "new", first: seconds(a.First)},
		next:    read(a.Next), node: a.Node, took: seconds(a.Seconds),
	}
	if a.Failed != "" {
		f.err = errors.New(a.Failed)
	}
	return f
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func written(all []strike) []progress.Strike {
	var to []progress.Strike
	for _, s := range all {
		to = append(to, progress.Strike{Fault: s.name, Lasting: s.lasting, At: s.at})
	}
	return to
}

func read(all []progress.Strike) []strike {
	var to []strike
	for _, s := range all {
		to = append(to, strike{fault{s.Fault, s.Lasting}, s.At})
	}
	return to
}
