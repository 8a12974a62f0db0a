package guest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/gate"
)

// Unlisted is a process of a service whose container an engine does not list.
type Unlisted struct {
	PID       int
	Container string // its id
	Service   string
	Waits     bool // at its gate
}

// Unlisted returns the first process of each container of this node that is not among the listed
// ones. An engine loses sight of containers that run if its data directory, its image store or
// its namespace is switched. What only remains of a container that was removed, such as a guest,
// is no child of a shim and is ignored. A container that was started with the volumes of a
// listed one is among those found.
func (f Finder) Unlisted(listed []string) ([]Unlisted, error) {
	pids, err := f.Host.Processes()
	if err != nil {
		return nil, fmt.Errorf("find containers: %w", err)
	}
	var found []Unlisted
	for _, pid := range pids {
		if !f.Host.HasShim(pid) {
			continue
		}
		cgroups, err := f.Host.Membership(pid)
		if err != nil {
			continue // it has exited
		}
		id := cgroups.Container()
		known := func(u Unlisted) bool { return u.Container == id }
		if id == "" || slices.ContainsFunc(listed, cgroups.Names) || slices.ContainsFunc(found, known) {
			continue
		}
		generation, service, err := f.startedBy(pid)
		if err != nil || generation == 0 {
			continue // what a process makes of its own file system must not stop an upgrade
		}
		open := filepath.Join(f.Generations, fmt.Sprintf("%06d", generation), service, "gate", gate.FileOpen)
		_, err = os.Lstat(open)
		found = append(found, Unlisted{PID: pid, Container: id, Service: service, Waits: err != nil})
	}
	return found, nil
}
