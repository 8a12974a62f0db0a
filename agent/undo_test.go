package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// Steps are undone last first, each between its records; what fails is said
// everywhere without secrets, and what comes before it is not undone.
func TestBack(t *testing.T) {
	var events, undone []string
	a := &Agent{&node.Node{Root: t.TempDir(), Now: time.Now, Report: func(e node.Event) { events = append(events, e.Text) }}}
	j, err := journal.Create(a.Journals(), journal.Record{To: 2}, a.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	undo := func(kind journal.StepKind, err error) step {
		return step{kind: kind, undo: func(context.Context) error { undone = append(undone, string(kind)); return err }}
	}
	tx := &transaction{Agent: a, journal: j, target: &target{secrets: map[string]string{"rabbit": "hunter2"}}}
	tx.begun = []step{undo(journal.Pull, nil), undo(journal.Render, errors.New("its log says hunter2")), {kind: journal.Verify}, undo(journal.Stage, nil)}
	err = tx.back(t.Context())
	if err == nil || err.Error() != "undo render: its log says <secret rabbit>" {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(undone, " "); got != "stage render" {
		t.Errorf("undone are %s", got)
	}
	records, rerr := journal.Read(a.Journals(), 2)
	if rerr != nil {
		t.Fatal(rerr)
	}
	var written []string
	for _, r := range records {
		written = append(written, string(r.Event)+" "+string(r.Step.Kind)+" "+r.Note)
	}
	if got, want := strings.Join(written, "; "), "begin  ; undo stage ; undone stage ; undo render ; failed render undo render: its log says <secret rabbit>"; got != want {
		t.Errorf("the journal has\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(strings.Join(events, " "), "hunter2") {
		t.Errorf("people are told %q", events)
	}
	if tx.touched() {
		t.Error("nothing was cut over")
	}
}
