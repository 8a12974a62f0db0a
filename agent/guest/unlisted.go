package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/host"
)

// Unlisted is a process of a service past its gate whose container an engine does not list.
type Unlisted struct {
	PID       int
	Container string // its id
	Service   string
}

// Unlisted returns a process of each container of this node that is not among the listed ones. An
// engine loses sight of containers that run if its data directory, its image store or its
// namespace is switched. Guests that were moved out of a container's cgroup do not count. A
// container that was started with the volumes of a listed one is among those found.
func (f Finder) Unlisted(listed []string) ([]Unlisted, error) {
	pids, err := f.Host.Processes()
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	var found []Unlisted
	for _, pid := range pids {
		cgroups, err := f.Host.Membership(pid)
		if err != nil {
			continue // it has exited
		}
		id := cgroups.Container()
		known := func(u Unlisted) bool { return u.Container == id }
		if id == "" || slices.Contains(listed, id) || slices.ContainsFunc(found, known) {
			continue
		}
		generation, service, err := f.startedBy(pid)
		if host.Gone(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("find containers: process %d: %w", pid, err)
		}
		open := filepath.Join(f.Generations, fmt.Sprintf("%06d", generation), service, "gate", gate.FileOpen)
		if _, err := os.Lstat(open); generation == 0 || err != nil {
			continue
		}
		found = append(found, Unlisted{PID: pid, Container: id, Service: service})
	}
	return found, nil
}
