package upgrade

import (
	"context"
	"slices"
	"time"

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
	options Options
	images  target.Images
	plan    plan.Plan
	began   time.Time
	from    generation.Generation
	to      generation.Generation
	journal *journal.Journal
	outcome journal.Outcome
	broken  error // services of the committed generation that cannot be started

	recovering bool // another process began it

	started   []step                 // steps whose intent is in the journal, in order
	previous  map[string][]string    // service: containers that ran before its cutover
	stopped   map[string]time.Time   // by container: when the run began that its cutover stopped
	revived   map[string]string      // service: the one of them that the rollback started
	gaps      map[string]journal.Gap // by service
	hosts     map[string]bool        // services of which containers run that may have started guests
	guests    []guest.Guest          // that ran before the first cutover
	fitted    []guest.Guest          // that fit the staged libvirt
	named     []guest.Process        // whose end was announced
	unhealthy map[string]error       // services that stay although they are unhealthy, with --force
	watch     *watch                 // of the containers that were cut over

	cloud   cloud                    // the control plane; nil: it is not asked
	grace   map[string]time.Duration // by service: how long its old task may take to stop, if not its stop_grace_period
	reports *reports                 // of the services that were cut over, to Nova and Neutron

	problems problems
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
		previous:  map[string][]string{},
		stopped:   map[string]time.Time{},
		revived:   map[string]string{},
		hosts:     map[string]bool{},
		gaps:      map[string]journal.Gap{},
		watch:     newWatch(n),
		unhealthy: map[string]error{},
		grace:     map[string]time.Duration{},
		problems:  newProblems(),
	}
}

// first reports whether nothing ran before: no generation, and no containers of kolla-ansible that
// are taken over.
func (t *transaction) first() bool { return t.from.Number == 0 && len(t.from.Services) == 0 }

// touched reports whether anything that ran may have been stopped.
func (t *transaction) touched() bool {
	return slices.ContainsFunc(t.started, func(s step) bool { return s.kind == journal.CutOver })
}
