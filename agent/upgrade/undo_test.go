package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/redact"
)

// Steps are undone last first, each between its records; what fails is said
// everywhere without secrets, and what comes before it is not undone.
func TestBack(t *testing.T) {
	var events, undone []string
	n := &node.Node{Root: t.TempDir(), Host: host.Real(), Report: func(e node.Event) { events = append(events, e.Text) }}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	undo := func(kind journal.StepKind, err error) step {
		return step{kind: kind, undo: func(context.Context) error { undone = append(undone, string(kind)); return err }}
	}
	tx := &transaction{node: n, journal: j, target: &target.Target{Redactor: redact.New(map[string]string{"rabbit": "hunter2"})}}
	tx.started = []step{undo(journal.Pull, nil), undo(journal.Render, errors.New("its log says hunter2")), {kind: journal.Verify}, undo(journal.Stage, nil)}
	err = tx.undoAll(t.Context())
	if err == nil || err.Error() != "undo render: its log says <secret rabbit>" {
		t.Errorf("got %v", err)
	}
	if got := strings.Join(undone, " "); got != "stage render" {
		t.Errorf("undone are %s", got)
	}
	records, rerr := journal.Read(n.Journals(), 2)
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

// A service that logs its transport_url logs the password as the template
// escaped it.
func TestEscapedSecretInErrorEventAndJournal(t *testing.T) {
	var events []string
	n := &node.Node{Root: t.TempDir(), Host: host.Real(), Report: func(e node.Event) { events = append(events, e.Text) }}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	renderer, err := configs.New(configs.Inputs{Host: "host", Secrets: map[string]string{"rabbit": "hunt/er$22 @x"}})
	if err != nil {
		t.Fatal(err)
	}
	file, err := renderer.Render("nova", configs.File{Where: "w", Format: "ini", Content: "[DEFAULT]\n" +
		"transport_url = rabbit://nova:{{ secret \"rabbit\" | urlescape }}@h:5672//\n" +
		"part = {{ secret \"rabbit\" | trunc 9 | upper }}\n"})
	if err != nil || !strings.Contains(string(file.Content), "hunt%2Fer%2422%20%40x") {
		t.Fatalf("%s, %v", file.Content, err)
	}
	tx := &transaction{node: n, journal: j, target: &target.Target{Redactor: renderer.Redactor()}}
	failed := tx.do(t.Context(), step{kind: journal.Verify, do: func(context.Context) error {
		return fmt.Errorf("nova: exited; last log lines:\n%s", file.Content)
	}})
	records, err := journal.Read(n.Journals(), 2)
	if err != nil {
		t.Fatal(err)
	}
	note := records[len(records)-1].Note
	for _, text := range []string{failed.Error(), note, strings.Join(events, "\n")} {
		if strings.Contains(text, "%2422") || strings.Contains(text, "HUNT") || !strings.Contains(text, "rabbit://nova:<secret rabbit>@h:5672") {
			t.Errorf("got %s", text)
		}
	}
}
