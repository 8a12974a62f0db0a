package model

import (
	"strings"
	"testing"
)

// verify builds a verifier and has it search the runs of the model.
func verify(t *testing.T, macros, options []string, args ...string) (violated, report string) {
	t.Helper()
	program, err := build(t.Context(), t.TempDir(), macros, options)
	if err != nil {
		t.Fatal(err)
	}
	violated, report, err = search(t.Context(), program, nil, append(args, "-m500000")...)
	if err != nil {
		t.Fatal(err)
	}
	return violated, report
}

// Whatever fails and whatever dies, as often as it likes: never are two containers of a
// service past their gates, and the node ends wholly on one of the two generations.
func TestProtocol(t *testing.T) {
	t.Parallel()
	violated, report := verify(t, nil, []string{"SAFETY", "COLLAPSE"})
	if violated != "" {
		t.Errorf("a run violates: %s\n%s", violated, report)
	}
	for line := range strings.Lines(report) {
		if strings.Contains(line, "printf('end: ") {
			t.Errorf("no run comes to this end: %s", line)
		}
		if strings.Contains(line, "states, stored") || strings.Contains(line, "elapsed") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// Every run ends once nothing fails any longer.
func TestProtocolEnds(t *testing.T) {
	t.Parallel()
	if violated, report := verify(t, []string{"SERVICES=2"}, []string{"NP", "COLLAPSE"}, "-l"); violated != "" {
		t.Errorf("a run does not end: %s\n%s", violated, report)
	}
}

// Each precaution of the protocol is needed: without it, spin finds a run that violates
// what the protocol promises.
func TestBrokenProtocols(t *testing.T) {
	const (
		twoRun = "[i]!=4" // two containers of a service are past their gates
		mixed  = "has[s]" // the new generation is not whole
		notNew = "healthy&&isNew"
		notOld = "!(isNew)&& !(rendered)"
	)
	for _, c := range []struct{ name, what, violates string }{
		{"GATE", "cutOver opens gates before it stops the old tasks", twoRun},
		{"POLICY", "oldTasks does not tell the engine not to restart the old containers", twoRun},
		{"PID", "oldTasks asks for the old process before it tells the engine, which may start another one", twoRun},
		{"SNAPSHOT", "running leaves out containers that the engine is about to restart", twoRun},
		{"UNDO", "revertCutover starts the old containers before it stops the new ones", twoRun},
		{"DEMOTE", "demote stops an old container before it tells the engine not to restart it", twoRun},
		{"COMMIT", "run commits before it verifies", notNew},
		{"SYNC", "commit does not sync the gates", mixed},
		{"DOUBT", "run undoes steps although a commit that could not be appended may be in the journal", notNew},
		{"RECOVERY", "recovery goes forward if the new containers run, and back if not", notOld},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			violated, report := verify(t, []string{"BREAK_" + c.name}, []string{"SAFETY", "COLLAPSE"})
			if !strings.Contains(violated, c.violates) {
				t.Errorf("%s: violated is %q\n%s", c.what, violated, report)
			}
		})
	}
}
