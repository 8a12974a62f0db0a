package host

import (
	"slices"
	"strings"
)

// Elsewhere returns the cgroup in which a container has processes beside this one, that of
// its first process: they too are in a cgroup with the container's id in its name, since a
// move of all processes was interrupted. It reports whether there are any.
func (c Cgroup) Elsewhere(id string) (Cgroup, bool, error) {
	pids, err := c.host.Processes()
	if err != nil {
		return Cgroup{}, false, err
	}
	other := Cgroup{Shim: c.Shim, host: c.host, own: Membership{}, mounts: c.mounts}
	for _, pid := range pids {
		m, err := c.host.Membership(pid)
		if Gone(err) {
			continue
		}
		if err != nil {
			return Cgroup{}, false, err
		}
		held := m.inside(c.own)
		for hierarchy, at := range m {
			if of := named(at, id); of != "" && !slices.Contains(held, hierarchy) {
				other.own[hierarchy] = of
			}
		}
	}
	return other, len(other.own) > 0, nil
}

// named returns the part of a cgroup's path up to the cgroup with a container's id in its
// name, "" if there is none.
func named(path, id string) string {
	i := strings.Index(path, id)
	if i < 0 {
		return ""
	}
	if end := strings.IndexByte(path[i:], '/'); end >= 0 {
		return path[:i+end]
	}
	return path
}
