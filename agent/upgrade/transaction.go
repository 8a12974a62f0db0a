package upgrade

import (
	"context"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/target"
)

// transaction takes the node from one generation to the next.
type transaction struct {
	node    *node.Node
	target  *target.Target // only its redactor is set in recovery
	images  target.Images
	plan    plan.Plan
	from    generation.Generation
	to      generation.Generation
	journal *journal.Journal
	outcome journal.Outcome

	started  []step                 // steps whose intent is in the journal, in order
	previous map[string][]string    // service: containers that ran before its cutover
	gaps     map[string]journal.Gap // by service
	guests   []guest.Guest          // that ran before the first cutover
	watch    *watch                 // of the containers that were cut over
}

// step is one step of a transaction. Both functions may run again after they
// were interrupted at any point.
type step struct {
	kind     journal.StepKind
	services []string                                           // that are cut over
	snapshot func(context.Context) (map[string][]string, error) // optional: the containers to record in the step's intent, by service
	do       func(context.Context) error
	undo     func(context.Context) error // nil: there is nothing to undo
}

// id is the step as the journal records it.
func (s step) id() journal.Step { return journal.Step{Kind: s.kind, Services: s.services} }

func newTransaction(n *node.Node, j *journal.Journal, from generation.Generation) *transaction {
	return &transaction{
		node: n, journal: j, from: from,
		previous: map[string][]string{},
		gaps:     map[string]journal.Gap{},
		watch:    newWatch(n),
	}
}

// touched reports whether anything that ran may have been stopped.
func (t *transaction) touched() bool {
	return slices.ContainsFunc(t.started, func(s step) bool { return s.kind == journal.CutOver })
}
