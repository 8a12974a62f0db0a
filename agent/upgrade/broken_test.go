package upgrade

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// unpromoting is an engine with the containers of generation 2, which fails when they
// are promoted.
type unpromoting struct {
	shelf
	err error
}

func (e *unpromoting) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{}, errors.Join(e.err, containers.ErrNotFound)
}

func (e *unpromoting) Start(context.Context, string) error { return e.err }

// A service that cannot be promoted leaves the upgrade open, for `kollet recover`. The
// next upgrade ends it, because it can replace the container.
func TestUnpromoted(t *testing.T) { synctest.Test(t, unpromoted) }

func unpromoted(t *testing.T) {
	e := &unpromoting{err: errors.New("the engine failed")}
	e.all = []containers.Container{made("a", 2), made("b", 2)}
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}
	to := record(t, n, 2)
	if err := n.Store().SetCurrent(1); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Create(n.Journals(), journal.Record{From: 1, To: 2}, n.Host.Now)
	if err != nil {
		t.Fatal(err)
	}
	tx := newTransaction(n, j, to)
	tx.to, tx.target = to, &target.Target{}
	open := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[node.NeedsOperator](err); !ok || !strings.Contains(err.Error(), "promote a: the engine failed; `kollet upgrade` creates a new container") || !strings.Contains(err.Error(), "run `kollet recover`") {
			t.Errorf("got %v", err)
		}
		if records, err := journal.Read(n.Journals(), 2); err != nil || journal.Ended(records) {
			t.Errorf("the journal has %+v, %v", records, err)
		}
	}
	ended := func(r Recovery) {
		t.Helper()
		if records, err := journal.Read(n.Journals(), 2); err != nil || !journal.Ended(records) || !r.Found || r.Current != 2 || r.Outcome != journal.Committed {
			t.Errorf("got %+v, and the journal has %+v, %v", r, records, err)
		}
	}
	open(errors.Join(j.Append(journal.Record{Event: journal.Commit}), tx.complete(t.Context()), j.Close()))
	_, err = recoverLocked(t.Context(), n, (*transaction).complete)
	open(err)
	written := filepath.Join(n.Journals(), "000002.jsonl")
	before, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}

	r, err := RecoverLocked(t.Context(), n)
	if r.broken == nil || err == nil || !strings.HasPrefix(err.Error(), "generation 2 is committed, but promote a: the engine failed") {
		t.Errorf("got %v", err)
	}
	ended(r)

	again := func() {
		t.Helper()
		if err := os.WriteFile(written, before, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	again()
	var notes []string
	n.Report = func(e node.Event) { notes = append(notes, e.Text) }
	if r, err = RecoverFirst(t.Context(), n); err != nil || len(notes) == 0 || !strings.HasPrefix(notes[len(notes)-1], "generation 2 is committed, but promote a: ") {
		t.Errorf("got %v, and the notes %q", err, notes)
	}
	ended(r)

	again()
	e.err = nil
	r, err = recoverLocked(t.Context(), n, (*transaction).complete)
	if err != nil {
		t.Error(err)
	}
	ended(r)
}
