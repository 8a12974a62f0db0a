package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
)

// Recovery says what recover found and did.
type Recovery struct {
	Found   bool            `json:"found"` // an upgrade had been interrupted
	From    int             `json:"from,omitempty"`
	To      int             `json:"to,omitempty"` // the generation that it was going to
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Current int             `json:"current"` // the generation that runs now
}

// Recover brings an interrupted upgrade to one of its two ends. If there is one,
// it waits this long for the engine.
func Recover(ctx context.Context, n *node.Node, wait time.Duration) (Recovery, error) {
	unlock, err := n.Lock()
	if err != nil {
		return Recovery{}, err
	}
	defer unlock()
	open, err := n.Interrupted()
	if err != nil {
		return Recovery{}, err
	}
	if open {
		if _, err := n.AwaitEngine(ctx, wait); err != nil {
			return Recovery{}, err
		}
	}
	return RecoverLocked(ctx, n)
}

// RecoverLocked is Recover on a node that the caller has locked and whose engine
// answers. It decides from the journal alone. An upgrade that had committed is
// finished. Of any other, every step whose intent is in the journal is undone,
// last first, whether it was done or only started: before the first cutover
// that discards what was staged, after it that is the roll back.
func RecoverLocked(ctx context.Context, n *node.Node) (Recovery, error) {
	r, tx, records, err := interrupted(n)
	if err != nil || !r.Found {
		return r, err
	}
	defer tx.journal.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	n.Note("", "an upgrade from generation %d to %d was interrupted; recovering", r.From, r.To)
	tx.target = &target.Target{Redactor: target.RedactorOf(n)}
	if journal.HasCommitted(records) {
		err = tx.completeCommit(ctx)
	} else {
		err = tx.undoRecorded(ctx, records)
	}
	if err != nil {
		return r, fmt.Errorf("recover: %w", tx.target.Redact(err))
	}
	r.Outcome = tx.outcome
	current, err := n.Store().Current()
	r.Current = current.Number
	return r, err
}

// interrupted finds the transaction that has not ended. There is at most one,
// because each begins by recovering the one before.
func interrupted(n *node.Node) (Recovery, *transaction, []journal.Record, error) {
	current, err := n.Store().Current()
	if err != nil {
		return Recovery{}, nil, nil, err
	}
	r := Recovery{Current: current.Number}
	numbers, err := journal.List(n.Journals())
	if err != nil || len(numbers) == 0 {
		return r, nil, nil, err
	}
	last := numbers[len(numbers)-1]
	records, err := journal.Read(n.Journals(), last)
	if err != nil {
		return r, nil, nil, node.NeedsOperator{Err: err}
	}
	if journal.Ended(records) {
		return r, nil, nil, nil
	}
	from := current
	if len(records) > 0 {
		if from, err = n.Store().Load(records[0].From); err != nil {
			return r, nil, nil, node.NeedsOperator{Err: err}
		}
	}
	if err := knownFormats(n, last); err != nil {
		return r, nil, nil, node.NeedsOperator{Err: err}
	}
	j, records, err := journal.Reopen(n.Journals(), last, n.Version, n.Host.Now) // last: it changes the journal
	if err != nil {
		return r, nil, nil, err
	}
	tx := newTransaction(n, j, from)
	tx.to = generation.Generation{Number: last}
	r.Found, r.From, r.To = true, from.Number, last
	return r, tx, records, nil
}

// knownFormats refuses what recovery reads later, if another version of kollet
// wrote it in another format: nothing has been changed yet. A record that is
// absent or damaged is no reason to refuse before a commit.
func knownFormats(n *node.Node, to int) error {
	var unknown *format.UnknownError
	if _, err := n.Store().Load(to); errors.As(err, &unknown) {
		return err
	}
	if _, err := n.Store().Prefetched(); errors.As(err, &unknown) {
		return err
	}
	return nil
}

// completeCommit tidies after a commit.
func (t *transaction) completeCommit(ctx context.Context) error {
	var err error
	if t.to, err = t.node.Store().Load(t.to.Number); err != nil {
		return node.NeedsOperator{Err: err}
	}
	return t.finish(journal.Committed, t.tidy(ctx))
}

// undoRecorded undoes the steps that the journal says were started.
func (t *transaction) undoRecorded(ctx context.Context, records []journal.Record) error {
	if to, err := t.node.Store().Load(t.to.Number); err == nil {
		t.to = to // absent if it was not rendered, or is discarded already
	}
	for _, r := range records {
		if r.Event != journal.Intent {
			continue
		}
		maps.Copy(t.previous, r.Previous)
		t.started = append(t.started, t.recordedStep(r.Step))
	}
	outcome := journal.Discarded
	if t.touched() {
		outcome = journal.RolledBack
	}
	if err := t.undoAll(ctx); err != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w; fix the cause, then run `kollet recover`", err)}
	}
	if t.touched() {
		if err := t.previousHealthy(ctx); err != nil {
			return node.NeedsOperator{Err: errors.Join(fmt.Errorf("the node is back on generation %d, but it is not healthy: %w", t.from.Number, err), t.finish(journal.Stuck, nil))}
		}
	}
	return t.finish(outcome, nil)
}
