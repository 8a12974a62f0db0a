package upgrade

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
)

// endedStuck returns the records of the last upgrade if it was rolled back to a
// generation that was not healthy either. Upgrades that touched nothing do not count.
func endedStuck(n *node.Node) ([]journal.Record, error) {
	numbers, err := journal.List(n.Journals())
	if err != nil {
		return nil, err
	}
	for _, number := range slices.Backward(numbers) {
		records, err := journal.Read(n.Journals(), number)
		if err != nil {
			return nil, node.NeedsOperator{Err: err}
		}
		if !journal.Ended(records) {
			return nil, nil
		}
		switch records[len(records)-1].Outcome {
		case journal.Discarded, journal.Deferred, journal.Unchanged:
			continue
		case journal.Stuck:
			return records, nil
		case journal.Committed, journal.RolledBack:
			return nil, nil
		}
	}
	return nil, nil
}

// stopGivenUp stops what runs of the generation from which the last upgrade was rolled back. Its
// rollback did that, unless it was on an engine that did not know of these containers.
func stopGivenUp(ctx context.Context, n *node.Node, current generation.Generation, number int) error {
	all, err := n.Containers(ctx)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.State.Stopped() || node.GenerationOf(c) != number {
			continue
		}
		if err := stopSafely(ctx, n, c, madeFor(n, current, c)); err != nil {
			return fmt.Errorf("stop %s: %w", c.Spec.Name, err)
		}
		n.Note(c.Spec.Labels[node.LabelService], "stopped container %s: the upgrade to generation %d was rolled back", c.Spec.Name, number)
	}
	return nil
}

// startStopped tries again to start the containers that ran before the last upgrade and
// that its rollback could not start, for example because the disk was full for a moment.
func startStopped(ctx context.Context, n *node.Node, current generation.Generation, records []journal.Record) {
	t := newTransaction(n, nil, current)
	for _, r := range records {
		maps.Copy(t.previous, r.Previous)
	}
	for _, s := range current.Services {
		c, err := n.Container(ctx, s.Name, s.Origin)
		if err != nil || !c.State.Stopped() || !slices.Contains(t.previous[s.Name], c.ID) {
			continue // stillUnhealthy says what is wrong with it
		}
		m := member{name: s.Name, old: s}
		if err = t.requireAlone(ctx, m); err == nil {
			err = t.startAgain(ctx, c, m, false)
		}
		if err != nil {
			n.Note(s.Name, "cannot be started again: %v; %s", err, t.recreate())
		}
	}
}

// requireAlone fails if a service runs already, in a container that was started manually while
// its own could not be: that one serves, and its own may fail again.
func (t *transaction) requireAlone(ctx context.Context, m member) error {
	running, err := t.running(ctx, group{m})
	if err != nil || len(running[m.name]) == 0 {
		return err
	}
	return fmt.Errorf("another container of it runs (%.12s); stop that, then run `kollet recover`", running[m.name][0])
}

// stillUnhealthy returns an error if the generation to which the last upgrade was rolled
// back is not healthy yet. An upgrade does not ask for it: it may be the repair.
func stillUnhealthy(ctx context.Context, n *node.Node, records []journal.Record) error {
	current, err := n.Current()
	if err != nil {
		return err
	}
	if err := stopGivenUp(ctx, n, current, records[0].To); err != nil {
		return node.NeedsOperator{Err: fmt.Errorf("the last upgrade was rolled back, but its containers run: %w; fix the cause, then run `kollet recover`", err)}
	}
	startStopped(ctx, n, current, records)
	err = eachOf(current.Services, func(s generation.Service) error {
		c, err := n.Container(ctx, s.Name, s.Origin)
		if err == nil {
			err = healthyAgain(ctx, n, s, c.ID)
		}
		if err != nil {
			return failure{s.Name, c.ID, err}
		}
		return nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted while waiting for the services: %w", ctx.Err())
	}
	if err == nil {
		n.Note("", "generation %d, to which the last upgrade was rolled back, is healthy now", current.Number)
		return nil
	}
	redactor := &target.Target{Redactor: target.RedactorOf(n)}
	return node.NeedsOperator{Err: redactor.Redact(fmt.Errorf("nothing is left to undo, but generation %d, to which the last upgrade was rolled back, is not healthy: %w; `kollet logs` may show why; repair it, or upgrade to what works", current.Number, err))}
}
