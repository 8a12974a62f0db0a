package agent

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
)

// begin starts the journal of a transaction to the next generation.
func (a *Agent) begin(t *target, plan Plan, current generation.Generation) (*transaction, error) {
	number, err := a.nextNumber()
	if err != nil {
		return nil, err
	}
	begin := journal.Record{From: current.Number, To: number, Reason: t.reason, Version: a.Version}
	j, err := journal.Create(a.Journals(), begin, a.Now)
	if err != nil {
		return nil, err
	}
	for _, d := range plan.Drift {
		a.Note(d.Service, "repairs what is not as generation %d has it: %s", current.Number, d.Text)
	}
	tx := a.transaction(j, current)
	tx.target, tx.plan = t, plan
	tx.to = generation.Generation{Number: number, Reason: t.reason, Created: a.Now().UTC(), Version: a.Version, Engine: t.engine}
	return tx, nil
}

func (a *Agent) transaction(j *journal.Journal, from generation.Generation) *transaction {
	return &transaction{
		Agent: a, journal: j, from: from,
		old:   map[string][]string{},
		gaps:  map[string]journal.Gap{},
		watch: newWatch(a.Engine),
	}
}

// nextNumber never returns a number that was used before, so that history is
// unambiguous: an upgrade that failed used its own.
func (a *Agent) nextNumber() (int, error) {
	kept, err := a.Store().List()
	if err != nil {
		return 0, err
	}
	tried, err := journal.List(a.Journals())
	if err != nil {
		return 0, err
	}
	return max(0, slices.Max(append(slices.Concat(kept, tried), 0))) + 1, nil
}

// group is the services that are cut over as one, in start order. A service
// without a successor is only stopped.
type group []member

type member struct {
	name string
	old  generation.Service // its Name is empty if the service is new
	new  generation.Service // its Name is empty if the service is removed
}

func (g group) names() []string {
	names := make([]string, len(g))
	for i, m := range g {
		names[i] = m.name
	}
	return names
}

// startsGuests reports whether guests hang on a container of the group that is
// stopped in a cut over.
func (g group) startsGuests() bool {
	return slices.ContainsFunc(g, func(m member) bool { return m.old.Guests != nil })
}

// groups returns what has to be cut over, in start order: the services whose
// container is made for the new generation, and after them those that are
// removed, dependents first.
func (t *transaction) groups() []group {
	var groups []group
	placed := map[string]bool{}
	for _, s := range t.to.Services {
		if s.Origin != t.to.Number || placed[s.Name] {
			continue
		}
		var g group
		mates := t.mates(s)
		for _, mate := range t.to.Services {
			if mates[mate.Name] {
				old, _ := t.from.Service(mate.Name)
				g = append(g, member{name: mate.Name, old: old, new: mate})
				placed[mate.Name] = true
			}
		}
		groups = append(groups, g)
	}
	groups = inOrder(groups)
	for _, old := range slices.Backward(t.from.Services) {
		if _, stays := t.to.Service(old.Name); !stays {
			groups = append(groups, group{{name: old.Name, old: old}})
		}
	}
	return groups
}

// inOrder puts groups behind those that any of their members comes after. Where
// that is not possible, because two groups come after each other, the one that
// starts first goes first.
func inOrder(groups []group) []group {
	var ordered []group
	for rest := slices.Clone(groups); len(rest) > 0; {
		next := max(0, slices.IndexFunc(rest, func(g group) bool {
			return !slices.ContainsFunc(rest, func(other group) bool { return other[0].name != g[0].name && g.after(other) })
		}))
		ordered = append(ordered, rest[next])
		rest = slices.Delete(rest, next, next+1)
	}
	return ordered
}

// after reports whether any member comes after one of another group.
func (g group) after(other group) bool {
	return slices.ContainsFunc(g, func(m member) bool {
		return slices.ContainsFunc(other, func(o member) bool { return slices.Contains(m.new.After, o.name) })
	})
}

// mates are the services that are cut over as one with s: those that it is
// together with, those that they are together with, and so on.
func (t *transaction) mates(s generation.Service) map[string]bool {
	mates := map[string]bool{s.Name: true}
	for todo := []generation.Service{s}; len(todo) > 0; todo = todo[1:] {
		for _, other := range t.to.Services {
			if other.Origin == t.to.Number && !mates[other.Name] && together(todo[0], other) {
				mates[other.Name] = true
				todo = append(todo, other)
			}
		}
	}
	return mates
}

func together(a, b generation.Service) bool {
	return slices.Contains(a.Together, b.Name) || slices.Contains(b.Together, a.Name)
}

// unchanged reports whether the pull showed that there is nothing to do.
func (t *transaction) unchanged() bool {
	return len(t.groups()) == 0 && len(t.from.Services) == len(t.to.Services) &&
		!slices.ContainsFunc(t.to.Services, func(s generation.Service) bool {
			old, ok := t.from.Service(s.Name)
			return !ok || !sameTreatment(old, s)
		})
}

// touched reports whether anything that ran may have been stopped.
func (t *transaction) touched() bool {
	return slices.ContainsFunc(t.begun, func(s step) bool { return s.kind == journal.CutOver })
}

func (t *transaction) result() Result {
	r := Result{Outcome: t.outcome, From: t.from.Number, To: t.from.Number, Plan: t.plan, Guests: len(t.guests)}
	if t.outcome == journal.Committed {
		r.To, r.Gaps = t.to.Number, t.gaps
	}
	return r
}
