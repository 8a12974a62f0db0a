package upgrade

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
)

// group is the services that are cut over as one, in start order. A service that
// has no new task is only stopped.
type group []member

type member struct {
	name string
	old  generation.Service // its Name is empty if the service is new
	new  generation.Service // its Name is empty if the service is removed
}

// names are the group's services, in start order.
func (g group) names() []string {
	names := make([]string, len(g))
	for i, m := range g {
		names[i] = m.name
	}
	return names
}

// groupOf returns the group of services that a journal names.
func (t *transaction) groupOf(services []string) group {
	var g group
	for _, name := range services {
		m := member{name: name}
		m.old, _ = t.from.Service(name)
		m.new, _ = t.to.Service(name)
		g = append(g, m)
	}
	return g
}

// stopsGuestHost reports whether the cut over stops a container that guests
// depend on.
func (g group) stopsGuestHost() bool {
	return slices.ContainsFunc(g, func(m member) bool { return m.old.Guests != nil })
}

// groups returns what is cut over, in start order: the services that get a new
// container, then those that are removed, dependents first.
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

// inOrder puts groups after those that any of their members depends on. If two
// groups depend on each other, the one that starts first stays first.
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
