package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/target"
)

// Recovery says what recover found and did.
type Recovery struct {
	Found   bool            `json:"found"` // an upgrade had been interrupted
	From    int             `json:"from,omitempty"`
	To      int             `json:"to,omitempty"` // the generation that it was going to
	Outcome journal.Outcome `json:"outcome,omitempty"`
	Current int             `json:"current"` // the generation that runs now

	generation generation.Generation // the current one, before the recovery
	broken     error                 // services of the current generation that cannot be started
}

// before returns the error of a command that has recovered first. It is not bad input, because
// that says that nothing was touched.
func (r Recovery) before(err error) error {
	if bad, ok := errors.AsType[node.BadInput](err); ok && r.Found {
		return fmt.Errorf("the upgrade from generation %d to %d was recovered; %w", r.From, r.To, bad.Err)
	}
	return err
}

// Recover brings an interrupted upgrade to one of its two ends. If there is one,
// it waits this long for the engine, and as long for the control plane if kollet
// disabled the compute service: after a power loss both may start later.
func Recover(ctx context.Context, n *node.Node, wait time.Duration) (Recovery, error) {
	unlock, err := Lock(n)
	if err != nil {
		return Recovery{}, err
	}
	defer unlock()
	open, err := n.Interrupted()
	if err != nil {
		return Recovery{}, err
	}
	stuck, err := endedStuck(n)
	if err != nil {
		return Recovery{}, err
	}
	if open || stuck != nil {
		if _, err := AwaitEngine(ctx, n, wait); err != nil {
			return Recovery{}, err
		}
	}
	r, err := recoverLocked(ctx, n, (*transaction).complete)
	if err == nil {
		awaitEnabled(ctx, n, wait)
	}
	if err == nil && stuck != nil {
		err = recoverable(ctx, n)
	}
	if err == nil && stuck != nil {
		err = stillUnhealthy(ctx, n, stuck)
	}
	return r, withStopped(ctx, n, err)
}

// RecoverLocked is Recover on a node that the caller has locked and whose engine
// answers. It decides from the journal alone. An upgrade that had committed is
// finished. Of any other, every step whose intent is in the journal is undone,
// last first, whether it was done or only started: before the first cutover
// that discards what was staged, after it that is the roll back. What cannot be finished
// after a commit, because a container cannot be started, is left to the next upgrade.
func RecoverLocked(ctx context.Context, n *node.Node) (Recovery, error) {
	r, err := recoverLocked(ctx, n, (*transaction).completeOrLeave)
	return r, withStopped(ctx, n, err)
}

// RecoverFirst is RecoverLocked before an upgrade, which repairs what cannot be started after
// a commit: that is only reported.
func RecoverFirst(ctx context.Context, n *node.Node) (Recovery, error) {
	r, err := recoverFirst(ctx, n)
	return r, withStopped(ctx, n, err)
}

func recoverFirst(ctx context.Context, n *node.Node) (Recovery, error) {
	r, err := recoverLocked(ctx, n, (*transaction).completeOrLeave)
	if err != nil && r.broken != nil {
		n.Note("", "%v", err)
		return r, nil
	}
	return r, err
}

// recoverLocked recovers, with a function that does what follows a commit.
func recoverLocked(ctx context.Context, n *node.Node, complete func(*transaction, context.Context) error) (Recovery, error) {
	if err := n.GuestFinder().Thaw(); err != nil { // see endFrozen
		n.Note("", "warning: let the processes of a service run again: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	r, tx, records, err := interrupted(ctx, n)
	if err != nil {
		return r, err
	}
	n.RestoreLink()
	if !r.Found {
		n.RestoreFiles(r.generation)
		redact := func(err error) error { return target.RedactorOf(n).Error(err) } // every command would read the secrets
		if err := enableService(ctx, n, nil, redact); err != nil {
			n.Note("", "warning: %v", err)
		}
		return r, nil
	}
	defer tx.journal.Close()
	n.Note("", "an upgrade from generation %d to %d was interrupted; recovering", r.From, r.To)
	tx.target = &target.Target{Redactor: target.RedactorOf(n)}
	if journal.HasCommitted(records) {
		err = tx.completeCommit(ctx, complete)
	} else {
		err = tx.undoRecorded(ctx, records)
	}
	if err != nil {
		return r, fmt.Errorf("recover: %w", tx.target.Redact(err))
	}
	r.Outcome = tx.outcome
	current, err := n.Current()
	r.Current, r.broken = current.Number, tx.target.Redact(tx.broken)
	if err == nil && r.broken != nil {
		err = node.NeedsOperator{Err: fmt.Errorf("generation %d is committed, but %w", r.Current, r.broken)}
	}
	return r, err
}

// interrupted finds the transaction that has not ended. There is at most one,
// because each begins by recovering the one before.
func interrupted(ctx context.Context, n *node.Node) (Recovery, *transaction, []journal.Record, error) {
	current, err := n.Current()
	if err != nil {
		return Recovery{}, nil, nil, err
	}
	r := Recovery{Current: current.Number, generation: current}
	last, records, err := n.LastJournal()
	if err != nil || last == 0 || journal.Ended(records) {
		return r, nil, nil, err
	}
	from := current
	if len(records) > 0 {
		if from, err = n.Store().LoadCurrent(records[0].From); err != nil {
			return r, nil, nil, n.Unreadable(records[0].From, err)
		}
	}
	if err := knownFormats(n, last); err != nil {
		return r, nil, nil, node.NeedsOperator{Err: err}
	}
	if err := recoverable(ctx, n); err != nil {
		return r, nil, nil, err
	}
	j, records, err := journal.Reopen(n.Journals(), last, n.Version, n.Host.Now) // last: it changes the journal
	if err != nil {
		return r, nil, nil, unrecovered(n, err)
	}
	tx := newTransaction(n, j, from)
	tx.to, tx.recovering = generation.Generation{Number: last}, true
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
	if _, err := marks(n).Marked(); errors.As(err, &unknown) {
		return err
	}
	return nil
}

// completeCommit does what follows a commit.
func (t *transaction) completeCommit(ctx context.Context, complete func(*transaction, context.Context) error) error {
	var err error
	if t.to, err = t.node.Store().Load(t.to.Number); err != nil {
		return node.NeedsOperator{Err: err}
	}
	t.node.RestoreFiles(t.to)
	return complete(t, ctx)
}

// completeOrLeave is complete for a command that follows: it ends the transaction, even if
// a service could not be promoted.
func (t *transaction) completeOrLeave(ctx context.Context) error {
	return t.finish(journal.Committed, persist(ctx, func() error { return t.tidy(ctx) }))
}

// undoRecorded undoes the steps that the journal says were started.
func (t *transaction) undoRecorded(ctx context.Context, records []journal.Record) error {
	t.node.RestoreFiles(t.from)
	to, err := t.node.Store().Load(t.to.Number)
	if err == nil {
		t.to = to
	} else {
		t.to.Services = t.standIns(records)
		t.noteDamage(err)
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
	if !slices.ContainsFunc(t.started, func(s step) bool { return s.kind == journal.Quiesce }) {
		_ = t.unquiesce(ctx) // an earlier command may have left the compute service disabled
	}
	if t.touched() {
		if err := t.previousHealthy(ctx); err != nil {
			return node.NeedsOperator{Err: errors.Join(fmt.Errorf("the node is back on generation %d, but it is not healthy: %w", t.from.Number, err), t.finish(journal.Stuck, nil))}
		}
	}
	return t.finish(outcome, nil)
}

// noteDamage reports a generation whose record cannot be read. One that was not
// rendered, or is discarded already, has no directory.
func (t *transaction) noteDamage(err error) {
	if _, absent := os.Stat(t.node.Store().Path(t.to.Number)); absent == nil {
		t.node.Note("", "warning: %v; rolling back without it, and protecting all guests", err)
	}
}

// standIns describe the services that were cut over to a generation whose record cannot
// be read, as far as an undo needs it: whatever may have started guests is stopped with
// care, as if they were protected.
func (t *transaction) standIns(records []journal.Record) []generation.Service {
	var services []generation.Service
	for _, r := range records {
		if r.Event != journal.Intent {
			continue
		}
		for _, name := range r.Step.Services {
			services = append(services, t.standIn(name))
		}
	}
	return services
}

// standIn has the origin of a container that was staged. If there is none, the generation may be one
// that returns to the containers of generation 0.
func (t *transaction) standIn(name string) generation.Service {
	old, known := t.from.Service(name)
	s := generation.Service{Name: name, Origin: t.to.Number, User: old.User, StopGracePeriod: old.StopGracePeriod}
	if !known {
		s.StopGracePeriod, s.Guests = unknownGrace, &nodefile.Guests{}
	}
	if old.Guests != nil {
		guests := *old.Guests
		guests.Protect = nil
		s.Guests = &guests
	}
	return s
}

// unknownGrace is the stop grace period of a service of which nothing is known: the
// node file's default.
const unknownGrace = time.Minute
