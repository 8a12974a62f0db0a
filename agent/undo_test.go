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
	undo := func(name string, err error) step {
		return step{name: name, undo: func(context.Context) error { undone = append(undone, name); return err }}
	}
	tx := &transaction{Agent: a, journal: j, target: &target{secrets: map[string]string{"rabbit": "hunter2"}}}
	tx.begun = []step{undo("one", nil), undo("two", errors.New("its log says hunter2")), {name: "nothing to undo"}, undo("three", nil)}
	err = tx.back(t.Context())
	if err == nil || err.Error() != "undo two: its log says <secret rabbit>" {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(undone, " "); got != "three two" {
		t.Errorf("undone are %s", got)
	}
	records, rerr := journal.Read(a.Journals(), 2)
	if rerr != nil {
		t.Fatal(rerr)
	}
	var written []string
	for _, r := range records {
		written = append(written, string(r.Event)+" "+r.Step+" "+r.Note)
	}
	if got, want := strings.Join(written, "; "), "begin  ; undo three ; undone three ; undo two ; failed two undo two: its log says <secret rabbit>"; got != want {
		t.Errorf("the journal has\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(strings.Join(events, " "), "hunter2") {
		t.Errorf("people are told %q", events)
	}
	if tx.touched() {
		t.Error("nothing was cut over")
	}
}
