package upgrade

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
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/target"
)

// Result says how an upgrade ended.
type Result struct {
	Outcome journal.Outcome        `json:"outcome"`
	From    int                    `json:"from"`
	To      int                    `json:"to"` // the generation that runs now
	Plan    plan.Plan              `json:"plan"`
	Gaps    map[string]journal.Gap `json:"gaps,omitempty"`
	Guests  int                    `json:"guests"` // that ran, and still run
}

// Resolve works out the target of an upgrade. It is called again if a recovery
// may have changed what it depends on.
type Resolve func() (*target.Target, error)

// Run takes the node to a target: lock, recover, plan, and the transaction.
func Run(ctx context.Context, n *node.Node, resolve Resolve, o Options) (Result, error) {
	t, err := resolve() // finds bad input before anything is touched, even the lock
	if err != nil {
		return Result{}, err
	}
	unlock, err := Lock(n)
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	return RunLocked(ctx, n, t, resolve, o)
}

// RunLocked is Run on a node that the caller has locked, to a target that resolve
// returned before.
func RunLocked(ctx context.Context, n *node.Node, t *target.Target, resolve Resolve, o Options) (Result, error) {
	r, err := runLocked(ctx, n, t, resolve, o)
	return r, withStopped(ctx, n, err)
}

func runLocked(ctx context.Context, n *node.Node, t *target.Target, resolve Resolve, o Options) (Result, error) {
	recovery, err := recoverFirst(ctx, n)
	if err != nil {
		return Result{}, err
	}
	current := recovery.generation
	if recovery.Found {
		if current, err = n.Current(); err != nil {
			return Result{}, err
		}
	}
	if recovery.Found || t.Base != current.Number { // another process may have held the lock meanwhile
		if t, err = resolve(); err != nil {
			return Result{}, recovery.before(err)
		}
	}
	if _, err := n.Store().Prefetched(); err != nil { // needed after the commit, when there is no way back
		return Result{}, err
	}
	changes, images, err := plan.Make(ctx, n, t, current)
	if err != nil && ctx.Err() != nil {
		return Result{}, errors.New("nothing was touched: interrupted in plan")
	}
	if err != nil {
		return Result{}, recovery.before(err)
	}
	if changes.Empty() && t.Pull != "always" {
		return Result{Outcome: journal.Unchanged, From: current.Number, To: current.Number, Plan: changes}, nil
	}
	tx, err := begin(ctx, n, t, images, changes, current)
	if err != nil {
		return Result{}, err
	}
	defer tx.journal.Close()
	tx.options = o
	err = tx.run(ctx)
	return tx.result(), t.Redact(err)
}

// begin starts the journal of a transaction to the next generation.
func begin(ctx context.Context, n *node.Node, t *target.Target, images target.Images, changes plan.Plan, current generation.Generation) (*transaction, error) {
	number, err := nextNumber(ctx, n)
	if err != nil {
		return nil, err
	}
	record := journal.Record{From: current.Number, To: number, Reason: t.Reason, Engine: t.Engine, Version: n.Version}
	j, err := journal.Create(n.Journals(), record, n.Host.Now)
	if err != nil {
		return nil, err
	}
	for _, d := range changes.Drift {
		n.Note(d.Service, "repairs drift from generation %d: %s", current.Number, d.Text)
	}
	tx := newTransaction(n, j, current)
	tx.target, tx.images, tx.plan = t, images, changes
	tx.began = n.Host.Now()
	tx.to = generation.Generation{Number: number, Reason: t.Reason, Created: n.Host.Now().UTC(), Version: n.Version, Engine: t.Engine, Hotfix: t.Hotfix}
	return tx, nil
}

// nextNumber never returns a number that was used before, so that history is
// unambiguous: an upgrade that failed used its own. The engine knows of numbers that the
// state directory does not if that was lost, or restored from an older copy. A container of
// such a generation must not be taken for one of the next.
func nextNumber(ctx context.Context, n *node.Node) (int, error) {
	kept, err := n.Store().List()
	if err != nil {
		return 0, err
	}
	tried, err := journal.List(n.Journals())
	if err != nil {
		return 0, err
	}
	all, err := n.Containers(ctx)
	if err != nil {
		return 0, err
	}
	numbers := append(slices.Concat(kept, tried), 0)
	for _, c := range all {
		numbers = append(numbers, node.GenerationOf(c))
	}
	return slices.Max(numbers) + 1, nil
}

// run does all steps, commits and tidies; or it undoes what was started.
func (t *transaction) run(ctx context.Context) error {
	defer func() { t.watch.stop() }()
	err := t.doAll(ctx, t.prepareSteps())
	if err == nil && t.unchanged() {
		return t.finish(journal.Unchanged, t.undoAll(ctx))
	}
	if err == nil {
		err = t.journal.Reserve()
	}
	if err == nil { // also if no libvirt is cut over: the result has their number
		t.guests, err = t.node.Guests()
	}
	if err == nil {
		err = t.doAll(ctx, t.cutoverSteps())
	}
	if err == nil {
		err = t.commit()
		if _, doubt := errors.AsType[node.NeedsOperator](err); doubt {
			return err
		}
	}
	if err != nil && ctx.Err() != nil {
		err = t.interrupted()
	}
	if err != nil {
		return t.rollBack(ctx, err)
	}
	if err = t.complete(context.WithoutCancel(ctx)); ctx.Err() != nil {
		t.node.Note("", "interrupted after the commit: nothing was undone")
	}
	return err
}

// complete does what follows the commit. If a service could not be promoted, the
// transaction stays open: the cause may be gone when a recovery tries again.
func (t *transaction) complete(ctx context.Context) error {
	err := persist(ctx, func() error { return t.tidy(ctx) })
	return t.finish(journal.Committed, errors.Join(err, t.broken))
}

// interrupted says where a signal ended the transaction.
func (t *transaction) interrupted() error {
	if len(t.started) == 0 {
		return errors.New("interrupted before the first step")
	}
	return fmt.Errorf("interrupted in %s", t.started[len(t.started)-1].id())
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
	began := t.node.Host.Now()
	name := s.id().String()
	t.node.Emit(node.Event{Kind: node.StepBegins, Step: name})
	intent := journal.Record{Event: journal.Intent, Step: s.id()}
	if s.snapshot != nil {
		var err error
		if intent.Previous, err = s.snapshot(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		maps.Copy(t.previous, intent.Previous)
	}
	if err := t.journal.Append(intent); err != nil {
		return err
	}
	t.started = append(t.started, s)
	if err := s.do(ctx); err != nil && ctx.Err() != nil { // what it failed with says nothing
		return t.stepFailed(s, name, errors.New("interrupted"))
	} else if err != nil {
		return t.stepFailed(s, name, err)
	}
	t.node.Emit(node.Event{Kind: node.StepEnds, Step: name, Text: t.since(began)})
	return t.journal.Append(journal.Record{Event: journal.Done, Step: s.id()})
}

// stepFailed reports and records why a step, or its undoing, failed.
func (t *transaction) stepFailed(s step, name string, err error) error {
	err = t.target.Redact(err)
	t.node.Emit(node.Event{Kind: node.StepFails, Step: name, Text: err.Error()})
	return errors.Join(err, t.journal.Append(journal.Record{Event: journal.Failed, Step: s.id(), Note: err.Error()}))
}

func (t *transaction) since(began time.Time) string {
	return t.node.Host.Now().Sub(began).Round(time.Millisecond).String()
}

// commit is one record: from it on, the new generation is the node's. What must
// be on stable storage by then is synced first.
func (t *transaction) commit() error {
	if err := t.syncGates(); err != nil {
		return err
	}
	t.gaps = t.watch.gaps
	err := t.journal.Append(journal.Record{Event: journal.Commit, Gaps: t.gaps})
	if err == nil {
		return nil
	}
	// The record may be on disk nevertheless, and a recovery would believe it. So nothing
	// is undone until another record is in its place.
	if doubt := t.warn("", "the commit is not recorded: %w", err); doubt != nil {
		return node.NeedsOperator{Err: fmt.Errorf("whether the commit is recorded is not known: %w; fix the cause, then run `kollet recover`", err)}
	}
	return err
}

// undoTimeout bounds a roll back, which continues after its caller was interrupted.
const undoTimeout = 10 * time.Minute

// rollBack undoes everything that was started, because of the given error.
func (t *transaction) rollBack(ctx context.Context, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	t.watch.stop()
	touched := t.touched()
	outcome, done := journal.Discarded, "nothing was touched"
	if _, deferred := errors.AsType[node.Deferred](cause); deferred {
		outcome = journal.Deferred
	}
	if touched {
		t.node.Note("", "rolling back")
		outcome, done = journal.RolledBack, fmt.Sprintf("the node is back on generation %d", t.from.Number)
	}
	if err := t.undoAll(ctx); err != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w\nrollback failed too: %w\nfix the cause, then run `kollet recover`", cause, err)}
	}
	if touched {
		if err := t.previousHealthy(ctx); err != nil {
			return node.NeedsOperator{Err: errors.Join(fmt.Errorf("%s, but it is not healthy: %w\nwhy it was rolled back: %w", done, err, cause), t.finish(journal.Stuck, nil))}
		}
	}
	return errors.Join(fmt.Errorf("%s: %w", done, cause), t.finish(outcome, nil))
}

// undoAll undoes the steps that were started, last first. A step is undone even if
// that cannot be recorded, for example because the disk is full: an undo may run again,
// so a recovery that does not know of it only repeats it.
func (t *transaction) undoAll(ctx context.Context) error {
	t.release()
	t.sweepCanary(ctx, t.to.Number)
	for _, s := range slices.Backward(t.started) {
		if s.undo == nil {
			continue
		}
		began := t.node.Host.Now()
		name := s.id().Text(journal.Undo)
		t.node.Emit(node.Event{Kind: node.StepBegins, Step: name})
		t.recordUndo(journal.Undo, s)
		if err := persist(ctx, func() error { return s.undo(ctx) }); err != nil {
			return t.stepFailed(s, name, fmt.Errorf("%s: %w", name, err))
		}
		t.recordUndo(journal.Undone, s)
		t.node.Emit(node.Event{Kind: node.StepEnds, Step: name, Text: t.since(began)})
	}
	return nil
}

// release frees the space that was reserved for a rollback, or for what follows the
// commit.
func (t *transaction) release() {
	if err := t.journal.Release(); err != nil {
		t.node.Note("", "warning: %v", err)
	}
}

// recordUndo records the beginning or the end of an undo, if that is possible.
func (t *transaction) recordUndo(event journal.Event, s step) {
	if err := t.journal.Append(journal.Record{Event: event, Step: s.id()}); err != nil {
		t.node.Note("", "warning: not recorded: %v", err)
	}
}

// finish ends the transaction, unless what had to come before it failed: then it
// stays open for the next recovery.
func (t *transaction) finish(outcome journal.Outcome, before error) error {
	if before != nil {
		return node.NeedsOperator{Err: fmt.Errorf("%w; fix the cause, then run `kollet recover`", before)}
	}
	t.outcome = outcome
	err := t.journal.End(outcome)
	if err != nil {
		err = unrecordedError{fmt.Errorf("the end of the upgrade is not recorded: %w; fix the cause, then run `kollet recover`", err)}
	}
	if err != nil && outcome == journal.Committed {
		err = node.NeedsOperator{Err: fmt.Errorf("the node is on generation %d, but %w", t.to.Number, err)}
	}
	return err
}

// unchanged reports whether the pull showed that there is nothing to do.
func (t *transaction) unchanged() bool {
	return len(t.groups()) == 0 && t.from.Hotfix.Equal(t.to.Hotfix) && !slices.ContainsFunc(t.plan.Drift, plan.Drift.IsReplaced) && len(t.from.Services) == len(t.to.Services) &&
		!slices.ContainsFunc(t.to.Services, func(s generation.Service) bool {
			old, ok := t.from.Service(s.Name)
			return !ok || !plan.SamePolicy(old, s)
		})
}

func (t *transaction) result() Result {
	r := Result{Outcome: t.outcome, From: t.from.Number, To: t.from.Number, Plan: t.plan, Guests: t.keptGuests()}
	if t.outcome == journal.Committed {
		r.To, r.Gaps = t.to.Number, t.gaps
	}
	return r
}

// keptGuests counts the guests that ran before the first cutover and still run. If that
// cannot be read, none are said to.
func (t *transaction) keptGuests() int {
	now, err := t.node.Guests()
	if err != nil {
		t.node.Note("", "warning: %v", err)
	}
	kept := 0
	for _, g := range t.guests {
		if slices.ContainsFunc(now, g.Same) {
			kept++
		}
	}
	return kept
}
