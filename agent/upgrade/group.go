package upgrade

import (
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
)

// group is the services that are cut over as one, in start order. A service that
// has no new task is only stopped.
type group []member

type member struct {
	name string
	old  generation.Service // its Name is empty if the service is new
	new  generation.Service // its Name is empty if the service is removed

	hosts bool // containers of it run that may have started guests, whatever the two say
}

// running is the service of the containers that run, as far as that is known: they may have been
// created manually, or for a generation that was lost.
func (m member) running() generation.Service {
	s := m.old
	if s.Name == "" {
		s = m.new
	}
	if s.Guests == nil && m.hosts {
		s.Guests = &nodefile.Guests{}
	}
	return s
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

// stopsGuestHost reports whether the cutover stops a container that guests
// depend on.
func (g group) stopsGuestHost() bool {
	return slices.ContainsFunc(g, func(m member) bool { return m.old.Guests != nil || m.hosts })
}

// groups returns what is cut over, in start order: the services that get a new
// container, then those that are removed, dependents first. If services are added,
// they may be the removed ones under other names, or take their place. So a removed
// service is stopped before any of them starts, in the same cutover.
func (t *transaction) groups() []group {
	var groups []group
	for _, s := range t.to.Services {
		old, there := t.from.Service(s.Name)
		if s.Origin != t.to.Number && !(s.Origin == 0 && (!there || old.Origin != 0)) {
			continue
		}
		m := member{name: s.Name, old: old, new: s, hosts: t.hosts[s.Name]}
		at := slices.IndexFunc(groups, func(g group) bool { return s.Group != "" && g[0].new.Group == s.Group })
		if at < 0 {
			groups = append(groups, group{m})
		} else {
			groups[at] = append(groups[at], m)
		}
	}
	groups = inOrder(groups)
	for _, old := range slices.Backward(t.from.Services) {
		if _, stays := t.to.Service(old.Name); stays {
			continue
		}
		removed := member{name: old.Name, old: old, hosts: t.hosts[old.Name]}
		if at := successor(groups, removed); at >= 0 {
			groups[at] = t.insert(groups[at], removed)
		} else {
			groups = append(groups, group{removed})
		}
	}
	return groups
}

// successor returns the index of the group that takes the place of a removed service:
// of one that starts guests, the group that adds another; else the first that adds any
// service. -1 if no service is added.
func successor(groups []group, removed member) int {
	adds := func(g group, guests bool) bool {
		return slices.ContainsFunc(g, func(m member) bool {
			return m.old.Name == "" && m.new.Name != "" && (!guests || m.new.Guests != nil)
		})
	}
	if removed.old.Guests != nil {
		if at := slices.IndexFunc(groups, func(g group) bool { return adds(g, true) }); at >= 0 {
			return at
		}
	}
	return slices.IndexFunc(groups, func(g group) bool { return adds(g, false) })
}

// insert adds a removed service to a group, in the start order of the running
// generation: dependents of it stop before it.
func (t *transaction) insert(g group, removed member) group {
	position := func(name string) int {
		return slices.IndexFunc(t.from.Services, func(s generation.Service) bool { return s.Name == name })
	}
	at := slices.IndexFunc(g, func(m member) bool { return position(m.name) > position(removed.name) })
	if at < 0 {
		at = len(g)
	}
	return slices.Insert(g, at, removed)
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

// dependOn reports whether members of the running generation depend on a service.
func (g group) dependOn(name string) bool {
	return slices.ContainsFunc(g, func(m member) bool { return slices.Contains(m.old.DependsOn, name) })
}

// after reports whether any member comes after one of another group.
func (g group) after(other group) bool {
	return slices.ContainsFunc(g, func(m member) bool {
		return slices.ContainsFunc(other, func(o member) bool { return slices.Contains(m.new.DependsOn, o.name) })
	})
}
