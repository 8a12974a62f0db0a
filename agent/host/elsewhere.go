package host

import "slices"

// Elsewhere returns the cgroup in which a container has processes beside this one, that of
// its first process: they too are in a cgroup with the container's id in its name, since a
// move of all processes was interrupted. It reports whether there are any.
func (c Cgroup) Elsewhere(id string) (Cgroup, bool, error) { return c.host.named(id, c.own) }

// Remains returns the cgroup in which processes of a container still run after its first
// one has exited, and reports whether there are any.
func (h Host) Remains(id string) (Cgroup, bool, error) { return h.named(id, nil) }

// named finds processes in cgroups with a container's id in their names, as both engines
// name them. Those in a cgroup that is known do not count.
func (h Host) named(id string, known Membership) (Cgroup, bool, error) {
	pids, err := h.Processes()
	if err != nil {
		return Cgroup{}, false, err
	}
	found := Membership{}
	for _, pid := range pids {
		m, err := h.Membership(pid)
		if Gone(err) {
			continue
		}
		if err != nil {
			return Cgroup{}, false, err
		}
		if !m.Names(id) || exited(h.ProcessPath(pid, "")) {
			continue
		}
		held := m.inside(known)
		for hierarchy, at := range m {
			if of := cgroupNamed(at, id); of != "" && !slices.Contains(held, hierarchy) {
				found[hierarchy] = of
			}
		}
	}
	if len(found) == 0 {
		return Cgroup{}, false, nil
	}
	mounts, err := h.hierarchies()
	return Cgroup{host: h, own: found, mounts: mounts}, err == nil, err
}
