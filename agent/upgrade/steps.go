// Package upgrade is the upgrade protocol. An upgrade is a transaction: a
// sequence of steps, each with what undoes it. The journal records a step before
// it begins and after it ends, and each step and its undoing may run again. So
// whenever kollet, the engine or the machine dies, recovery reads the journal and
// knows what to undo or, after the commit, what to finish.
//
// Read steps.go first: it lists the steps in order. transaction.go holds what they
// work on, run.go runs and undoes them, recover.go undoes those of an interrupted
// upgrade, unrecovered.go says whether services may be stopped if it cannot, stopped.go
// which services do not run after a failure, stuck.go repairs after a rollback that did not
// end healthy. The other files hold the steps in the order in which they run: stage.go with
// lost.go and options.go, quiesce.go, guests.go, cutover.go with oldtask.go, leftover.go, newtask.go and return.go,
// verify.go with reports.go and problems.go, tidy.go.
package upgrade

import (
	"context"
	"slices"

	"github.com/kollet/kollet/agent/journal"
)

// prepareSteps are the steps that do not touch the running node: a failure costs
// nothing.
func (t *transaction) prepareSteps() []step {
	return []step{
		{kind: journal.Check, do: t.check},
		{kind: journal.Pull, do: t.pull},
		{kind: journal.Render, do: t.render, undo: t.discard},
		{kind: journal.Stage, do: t.stage, undo: t.unstage},
		{kind: journal.Check, do: t.checkAgain},
	}
}

// cutoverSteps are the steps that change the running node. They end in the new
// generation or, undone in reverse, in the old one.
func (t *transaction) cutoverSteps() []step {
	var steps []step
	groups := t.groups()
	if slices.ContainsFunc(groups, group.interruptsOperations) {
		steps = append(steps, t.quiesceStep())
	}
	for _, g := range groups {
		if !g.stopsGuestHost() {
			steps = append(steps, t.cutoverStep(g))
			continue
		}
		steps = append(steps,
			step{kind: journal.ProtectGuests, do: func(ctx context.Context) error { return t.protectGuests(ctx, g) }},
			t.cutoverStep(g),
			step{kind: journal.FindGuests, do: func(ctx context.Context) error { return t.findGuests(ctx, g) }})
	}
	return append(steps, step{kind: journal.Verify, do: t.verify})
}

func (t *transaction) quiesceStep() step {
	return step{kind: journal.Quiesce, do: t.quiesce, undo: t.unquiesce}
}

func (t *transaction) cutoverStep(g group) step {
	return step{
		kind:     journal.CutOver,
		services: g.names(),
		snapshot: func(ctx context.Context) (map[string][]string, error) { return t.running(ctx, g) },
		do: func(ctx context.Context) error {
			if err := t.noteProblems(ctx); err != nil {
				return err
			}
			return t.reported(ctx, g, t.cutOver)
		},
		undo: func(ctx context.Context) error { return t.revertCutover(ctx, g) },
	}
}

// recordedStep returns the step that a journal records, for its undoing. A step
// with nothing to undo needs no more than its name.
func (t *transaction) recordedStep(recorded journal.Step) step {
	if recorded.Kind == journal.CutOver {
		return t.cutoverStep(t.groupOf(recorded.Services))
	}
	if recorded.Kind == journal.Quiesce {
		return t.quiesceStep()
	}
	if i := slices.IndexFunc(t.prepareSteps(), func(s step) bool { return s.kind == recorded.Kind }); i >= 0 {
		return t.prepareSteps()[i]
	}
	return step{kind: recorded.Kind}
}
