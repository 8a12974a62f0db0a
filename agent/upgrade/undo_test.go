package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/test/needs"
)

// Steps are undone last first, each between its records; what fails is tried again, and said
// everywhere without secrets, and what comes before it is not undone.
func TestBack(t *testing.T) { synctest.Test(t, undoneInOrder) }

func undoneInOrder(t *testing.T) {
	var events, undone []string
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Report: func(e node.Event) { events = append(events, e.Text) }}
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
	if got := strings.Join(undone, " "); got != "stage render render render" {
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

// A container to which nothing can go back is created again from the generation that the node is on,
// or from the node file, whose upgrade may fail again.
func TestRecreate(t *testing.T) {
	for number, want := range map[int]string{
		0: "`kollet upgrade` creates a new container",
		3: "`kollet upgrade` creates a new container as the node file says, `kollet rollback 3` one of generation 3",
	} {
		tx := newTransaction(&node.Node{}, nil, generation.Generation{Number: number})
		if got := tx.recreate(); got != want {
			t.Errorf("generation %d: %s", number, got)
		}
	}
}

// Nothing is undone while the journal may say that the upgrade is committed.
func TestCommitInDoubt(t *testing.T) {
	n := &node.Node{Root: t.TempDir(), Host: idle(t)}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil { // every record fails from here on
		t.Fatal(err)
	}
	tx := &transaction{node: n, journal: j, target: &target.Target{Redactor: redact.New(nil)}, watch: &watch{}}
	err = tx.commit()
	if _, doubt := errors.AsType[node.NeedsOperator](err); !doubt || !strings.Contains(err.Error(), "whether the commit is recorded is not known") {
		t.Errorf("got %v", err)
	}
}

// What cannot be recorded is undone even so.
func TestUndoneWithoutRecords(t *testing.T) {
	var undone, events []string
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Report: func(e node.Event) { events = append(events, e.Text) }}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil { // every record fails from here on
		t.Fatal(err)
	}
	tx := newTransaction(n, j, generation.Generation{Number: 1})
	tx.target = &target.Target{}
	for _, kind := range []journal.StepKind{journal.Stage, journal.Quiesce, journal.CutOver} {
		tx.started = append(tx.started, step{kind: kind, undo: func(context.Context) error { undone = append(undone, string(kind)); return nil }})
	}
	err = tx.rollBack(t.Context(), errors.New("no space left"))
	if got := strings.Join(undone, " "); got != "cut-over quiesce stage" {
		t.Errorf("undone are %q", got)
	}
	if err == nil || !strings.Contains(err.Error(), "the node is back on generation 1: no space left\nthe end of the upgrade is not recorded") {
		t.Errorf("got %v", err)
	}
	if _, stuck := errors.AsType[node.NeedsOperator](err); stuck {
		t.Errorf("the node is as before, but %v", err)
	}
	if !strings.Contains(strings.Join(events, "\n"), "not recorded: journal undo cut over") {
		t.Errorf("people are told %q", events)
	}
}

// A node whose end cannot be recorded after the commit is not as before.
func TestEndNotRecordedAfterCommit(t *testing.T) {
	n := &node.Node{Root: t.TempDir(), Host: idle(t)}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	tx := newTransaction(n, j, generation.Generation{Number: 1})
	tx.to.Number = 2
	err = tx.finish(journal.Committed, nil)
	if _, ok := errors.AsType[node.NeedsOperator](err); !ok || !strings.Contains(err.Error(), "the node is on generation 2, but the end of the upgrade is not recorded") {
		t.Errorf("got %v", err)
	}
}

// A power loss left a journal without a record. That must not keep `kollet gc` from freeing
// space, which a full disk needs.
func TestRecoverEmptyJournalDiskFull(t *testing.T) {
	needs.Root(t)
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: &shelf{}}
	err := os.MkdirAll(n.Journals(), 0o700)
	if err == nil {
		err = unix.Mount("tmpfs", n.Journals(), "tmpfs", 0, "size=4k")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(n.Journals(), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	for name, size := range map[string]int{"other": os.Getpagesize(), "000002.jsonl": 0} {
		if err := os.WriteFile(filepath.Join(n.Journals(), name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := RecoverLocked(t.Context(), n); err != nil || r.Outcome != journal.Discarded {
		t.Errorf("got %+v, %v", r, err)
	}
	if open, err := n.Interrupted(); err != nil || open {
		t.Errorf("interrupted %v, %v", open, err)
	}
}

// A signal may come before the first step.
func TestInterruptedBeforeFirstStep(t *testing.T) {
	n := &node.Node{Root: t.TempDir(), Host: idle(t)}
	j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	tx := newTransaction(n, j, generation.Generation{Number: 1})
	tx.target = &target.Target{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = tx.run(ctx)
	if err == nil || err.Error() != "nothing was touched: interrupted before the first step" {
		t.Errorf("got %v", err)
	}
	if records, err := journal.Read(n.Journals(), 2); err != nil || !journal.Ended(records) {
		t.Errorf("the journal has %+v, %v", records, err)
	}
}

// A service that logs its transport_url logs the password as the template
// escaped it.
func TestEscapedSecretInErrorEventAndJournal(t *testing.T) {
	var events []string
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Report: func(e node.Event) { events = append(events, e.Text) }}
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
