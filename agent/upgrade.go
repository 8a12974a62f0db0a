package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// This file is the upgrade protocol. An upgrade is a transaction: a sequence of
// steps, each with what undoes it. The journal knows of a step before it is
// done and after, and each step and its undoing may be done again, so that at
// whatever instant kollet, the engine or the machine dies, recovery reads the
// journal and knows what to undo or, after the commit, what to finish.

// Result tells how an upgrade ended.
type Result struct {
	Outcome journal.Outcome        `json:"outcome"`
	From    int                    `json:"from"`
	To      int                    `json:"to"` // the generation that runs now
	Plan    Plan                   `json:"plan"`
	Gaps    map[string]journal.Gap `json:"gaps,omitempty"`
	Guests  int                    `json:"guests"` // that ran, and still run
}

// Upgrade takes the node to what its node file says now.
func (a *Agent) Upgrade(ctx context.Context, opts Options) (Result, error) {
	return a.change(ctx, func() (*target, error) { return a.read(opts, "upgrade") })
}

// Rollback takes the node to an earlier generation, images and configuration
// together; 0 means the one before the current. It is an upgrade like any
// other, to a new generation that equals the earlier one.
func (a *Agent) Rollback(ctx context.Context, number int) (Result, error) {
	return a.change(ctx, func() (*target, error) { return a.recall(number) })
}

// change is what every upgrade goes through: lock, recover, plan, and the
// transaction.
func (a *Agent) change(ctx context.Context, aim func() (*target, error)) (Result, error) {
	t, err := aim() // bad input is found before anything is touched, the lock included
	if err != nil {
		return Result{}, err
	}
	unlock, err := a.Lock()
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	return a.changeLocked(ctx, t, aim)
}

// changeLocked is change once the node is locked.
func (a *Agent) changeLocked(ctx context.Context, t *target, aim func() (*target, error)) (Result, error) {
	recovery, err := a.recover(ctx)
	if err != nil {
		return Result{}, err
	}
	if recovery.Found { // what the aim was taken from may have changed
		if t, err = aim(); err != nil {
			return Result{}, err
		}
	}
	current, err := a.Store().Current()
	if err != nil {
		return Result{}, err
	}
	if _, err := a.Store().Ahead(); err != nil { // it is needed once there is no way back
		return Result{}, err
	}
	plan, err := a.plan(ctx, t, current)
	if err != nil {
		return Result{}, err
	}
	if plan.Empty() && t.pull != "always" {
		return Result{Outcome: journal.Unchanged, From: current.Number, To: current.Number, Plan: plan}, nil
	}
	tx, err := a.begin(t, plan, current)
	if err != nil {
		return Result{}, err
	}
	defer tx.journal.Close()
	err = tx.run(ctx)
	return tx.result(), t.redact(err)
}

// transaction takes the node from one generation to the next.
type transaction struct {
	*Agent
	target  *target // nil in recovery
	plan    Plan
	from    generation.Generation
	to      generation.Generation
	journal *journal.Journal
	outcome journal.Outcome

	begun  []step                 // steps whose intent is in the journal, in order
	old    map[string][]string    // service: containers that ran before it was cut over
	gaps   map[string]journal.Gap // service: how long it was away
	guests []guest.Guest          // that ran before the first cut over
	watch  *watch                 // over the containers that were cut over
}

// step is one step of a transaction. Both functions may be called again after
// they were cut short anywhere.
type step struct {
	kind     journal.StepKind
	services []string                                           // that are cut over
	remember func(context.Context) (map[string][]string, error) // optional: containers that its intent must remember, by service
	do       func(context.Context) error
	undo     func(context.Context) error // nil: leaves nothing to undo
}

func (s step) id() journal.Step { return journal.Step{Kind: s.kind, Services: s.services} }

// preparation is what happens while the node is not touched: a failure costs
// nothing.
func (t *transaction) preparation() []step {
	return []step{
		{kind: journal.Check, do: t.check},
		{kind: journal.Pull, do: t.pullImages},
		{kind: journal.Render, do: t.render, undo: t.discard},
		{kind: journal.Stage, do: t.stage, undo: t.unstage},
	}
}

// swap is what happens to the running node, ending in the new generation or,
// undone in reverse, in the old one.
func (t *transaction) swap() []step {
	var steps []step
	for _, g := range t.groups() {
		if !g.startsGuests() {
			steps = append(steps, t.cutOverStep(g))
			continue
		}
		steps = append(steps,
			step{kind: journal.ProtectGuests, do: func(ctx context.Context) error { return t.protect(ctx, g) }},
			t.cutOverStep(g),
			step{kind: journal.FindGuests, do: func(ctx context.Context) error { return t.findGuests(ctx, g) }})
	}
	return append(steps, step{kind: journal.Verify, do: t.verify})
}

func (t *transaction) cutOverStep(g group) step {
	return step{
		kind:     journal.CutOver,
		services: g.names(),
		remember: func(ctx context.Context) (map[string][]string, error) { return t.running(ctx, g) },
		do:       func(ctx context.Context) error { return t.cutOver(ctx, g) },
		undo:     func(ctx context.Context) error { return t.cutBack(ctx, g) },
	}
}

// run does all steps, commits and tidies; or it undoes what was begun.
func (t *transaction) run(ctx context.Context) error {
	defer func() { t.watch.stop() }()
	err := t.doAll(ctx, t.preparation())
	if err == nil && t.unchanged() {
		return t.end(journal.Unchanged, t.back(ctx))
	}
	if err == nil {
		err = t.doAll(ctx, t.swap())
	}
	if err == nil {
		err = t.commit()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("interrupted in %s", t.begun[len(t.begun)-1].id())
	}
	if err != nil {
		return t.rollBack(ctx, err)
	}
	return t.end(journal.Committed, t.tidy(context.WithoutCancel(ctx)))
}

func (t *transaction) doAll(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := t.do(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// do does one step between its two records in the journal.
func (t *transaction) do(ctx context.Context, s step) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	started := t.Now()
	t.Emit(node.Event{Kind: node.StepBegins, Step: s.id().Text(journal.Intent)})
	intent := journal.Record{Event: journal.Intent, Step: s.id()}
	if s.remember != nil {
		var err error
		if intent.Old, err = s.remember(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.id(), err)
		}
		maps.Copy(t.old, intent.Old)
	}
	if err := t.journal.Append(intent); err != nil {
		return err
	}
	t.begun = append(t.begun, s)
	if err := s.do(ctx); err != nil {
		err = t.target.redact(err)
		t.Emit(node.Event{Kind: node.StepFails, Step: s.id().Text(journal.Intent), Text: err.Error()})
		return errors.Join(err, t.journal.Append(journal.Record{Event: journal.Failed, Step: s.id(), Note: err.Error()}))
	}
	t.Emit(node.Event{Kind: node.StepEnds, Step: s.id().Text(journal.Intent), Text: t.Now().Sub(started).Round(time.Millisecond).String()})
	return t.journal.Append(journal.Record{Event: journal.Done, Step: s.id()})
}

// commit is one record: from it on, the new generation is the node's. What must
// be on stable storage before it is made so first.
func (t *transaction) commit() error {
	if err := t.settleGates(); err != nil {
		return err
	}
	return t.journal.Append(journal.Record{Event: journal.Commit, Gaps: t.gaps})
}

// undoTime bounds a roll back: it goes on when its caller has been interrupted.
const undoTime = 10 * time.Minute

// rollBack undoes everything that was begun, because of the given error.
func (t *transaction) rollBack(ctx context.Context, because error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	t.watch.stop()
	touched := t.touched()
	outcome, done := journal.Discarded, "nothing was touched"
	if touched {
		t.Note("", "rolling back")
		outcome, done = journal.RolledBack, fmt.Sprintf("the node is back on generation %d", t.from.Number)
	}
	if err := t.back(ctx); err != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w\nand then rolling back failed: %w\nmend the cause, then run `kollet recover`", because, err)}
	}
	if touched {
		if err := t.healthyAgain(ctx); err != nil {
			return node.NeedsOperator{Err: errors.Join(fmt.Errorf("%s, but it is not healthy: %w\nwhy it was rolled back: %w", done, err, because), t.end(journal.Stuck, nil))}
		}
	}
	return errors.Join(fmt.Errorf("%s: %w", done, because), t.end(outcome, nil))
}

// back undoes the steps that were begun, last first.
func (t *transaction) back(ctx context.Context) error {
	for i := len(t.begun) - 1; i >= 0; i-- {
		s := t.begun[i]
		if s.undo == nil {
			continue
		}
		started := t.Now()
		t.Emit(node.Event{Kind: node.StepBegins, Step: s.id().Text(journal.Undo)})
		if err := t.journal.Append(journal.Record{Event: journal.Undo, Step: s.id()}); err != nil {
			return err
		}
		if err := s.undo(ctx); err != nil {
			err = t.target.redact(fmt.Errorf("%s: %w", s.id().Text(journal.Undo), err))
			t.Emit(node.Event{Kind: node.StepFails, Step: s.id().Text(journal.Undo), Text: err.Error()})
			return errors.Join(err, t.journal.Append(journal.Record{Event: journal.Failed, Step: s.id(), Note: err.Error()}))
		}
		if err := t.journal.Append(journal.Record{Event: journal.Undone, Step: s.id()}); err != nil {
			return err
		}
		t.Emit(node.Event{Kind: node.StepEnds, Step: s.id().Text(journal.Undo), Text: t.Now().Sub(started).Round(time.Millisecond).String()})
	}
	return nil
}

// end closes the transaction, unless what had to come before it failed: then it
// stays open for the next recovery.
func (t *transaction) end(outcome journal.Outcome, before error) error {
	if before != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w; run `kollet recover` once the cause is mended", before)}
	}
	t.outcome = outcome
	return t.journal.Append(journal.Record{Event: journal.End, Outcome: outcome})
}
