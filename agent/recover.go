package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// Recovery tells what recover found and did.
type Recovery struct {
	Found   bool            `json:"found"` // an upgrade had been interrupted
	From    int             `json:"from,omitempty"`
	To      int             `json:"to,omitempty"` // that it was on its way to
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Current int             `json:"current"` // the generation that runs now
}

// Recover brings an interrupted upgrade to one of its two ends. If there is one
// it waits so long for the engine.
func (a *Agent) Recover(ctx context.Context, wait time.Duration) (Recovery, error) {
	unlock, err := a.Lock()
	if err != nil {
		return Recovery{}, err
	}
	defer unlock()
	open, err := a.unfinished()
	if err != nil {
		return Recovery{}, err
	}
	if open {
		if _, err := a.AwaitEngine(ctx, wait); err != nil {
			return Recovery{}, err
		}
	}
	return a.recover(ctx)
}

// recover decides from the journal alone. An upgrade that had committed is
// finished. Of any other, every step whose intent is in the journal is undone,
// last first, whether it had been done or only begun: before the first cut over
// that discards what was staged, after it that is the roll back.
func (a *Agent) recover(ctx context.Context) (Recovery, error) {
	r, tx, records, err := a.interrupted()
	if err != nil || !r.Found {
		return r, err
	}
	defer tx.journal.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	a.Note("", "an upgrade from generation %d to %d was interrupted; recovering", r.From, r.To)
	if journal.HasCommitted(records) {
		err = tx.finish(ctx)
	} else {
		err = tx.giveUp(ctx, records)
	}
	if err != nil {
		return r, fmt.Errorf("recover: %w", tx.target.redact(err))
	}
	r.Outcome = tx.outcome
	current, err := a.Store().Current()
	r.Current = current.Number
	return r, err
}

// interrupted finds the transaction that has not ended; at most one has not,
// since each begins by recovering the one before.
func (a *Agent) interrupted() (Recovery, *transaction, []journal.Record, error) {
	current, err := a.Store().Current()
	if err != nil {
		return Recovery{}, nil, nil, err
	}
	r := Recovery{Current: current.Number}
	numbers, err := journal.List(a.Journals())
	if err != nil || len(numbers) == 0 {
		return r, nil, nil, err
	}
	last := numbers[len(numbers)-1]
	records, err := journal.Read(a.Journals(), last)
	if err != nil {
		return r, nil, nil, node.NeedsOperator{Err: err}
	}
	if journal.Ended(records) {
		return r, nil, nil, nil
	}
	j, records, err := journal.Reopen(a.Journals(), last, a.Version, a.Now)
	if err != nil {
		return r, nil, nil, err
	}
	from := current
	if len(records) > 0 {
		if from, err = a.Store().Load(records[0].From); err != nil {
			return r, nil, nil, node.NeedsOperator{Err: errors.Join(err, j.Close())}
		}
	}
	tx := a.transaction(j, from)
	tx.to = generation.Generation{Number: last}
	r.Found, r.From, r.To = true, from.Number, last
	return r, tx, records, nil
}

// finish tidies behind a commit.
func (t *transaction) finish(ctx context.Context) error {
	var err error
	if t.to, err = t.Store().Load(t.to.Number); err != nil {
		return node.NeedsOperator{Err: err}
	}
	return t.end(journal.Committed, t.tidy(ctx))
}

// giveUp undoes what the journal says was begun.
func (t *transaction) giveUp(ctx context.Context, records []journal.Record) error {
	t.target = &target{redactor: t.redactor()}
	if to, err := t.Store().Load(t.to.Number); err == nil {
		t.to = to // absent if it was not rendered, or is discarded already
	}
	for _, r := range records {
		if r.Event != journal.Intent {
			continue
		}
		maps.Copy(t.old, r.Old)
		t.begun = append(t.begun, t.stepOf(r.Step))
	}
	outcome := journal.Discarded
	if t.touched() {
		outcome = journal.RolledBack
	}
	if err := t.back(ctx); err != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w; run `kollet recover` once the cause is mended", err)}
	}
	if t.touched() {
		if err := t.healthyAgain(ctx); err != nil {
			return node.NeedsOperator{Err: errors.Join(fmt.Errorf("the node is back on generation %d, but it is not healthy: %w", t.from.Number, err), t.end(journal.Stuck, nil))}
		}
	}
	return t.end(outcome, nil)
}

// stepOf finds what undoes a step of the journal.
func (t *transaction) stepOf(s journal.Step) step {
	if i := slices.IndexFunc(t.preparation(), func(p step) bool { return p.kind == s.Kind }); i >= 0 {
		return t.preparation()[i]
	}
	if s.Kind != journal.CutOver {
		return step{kind: s.Kind} // leaves nothing to undo
	}
	var g group
	for _, service := range s.Services {
		m := member{name: service}
		m.old, _ = t.from.Service(service)
		m.new, _ = t.to.Service(service)
		g = append(g, m)
	}
	return t.cutOverStep(g)
}
