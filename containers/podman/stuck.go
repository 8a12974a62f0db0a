package podman

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// Podman reads the lists of users of a container (containers.UsersFiles) when it starts it and when
// it runs a command in it, with the container's lock held. At one that is a FIFO it waits without end,
// and answers neither about that container nor what containers there are. kollet starts no such
// container, but Podman does by a restart policy, or at a boot.

// stuckTime is how long Podman takes at least to answer until kollet looks for what it waits for.
const stuckTime = 3 * time.Second

// unblock ends waits of Podman for lists of users, every stuckTime until done is called.
func unblock() (done func()) {
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(stuckTime):
				endWaits(host.Real())
			}
		}
	}()
	return func() { close(stop) }
}

// readers are the programs that read the lists: Podman, and OCI runtimes in a container.
var readers = []string{"podman", "runc:[2:INIT]", "crun"}

// endWaits has what waits for a list of users read an empty one.
func endWaits(machine host.Host) {
	pids, _ := machine.Processes() // else the silence remains
	for _, pid := range pids {
		name, err := machine.CommandName(pid)
		if err == nil && slices.Contains(readers, name) && machine.IsRoots(pid) {
			machine.EndFIFOs(pid, isUsersFile)
		}
	}
}

// isUsersFile reports whether a path that Podman opens is that of a list of users, to which it has
// followed all links: one of a container's files, or with the name that such a list has.
func isUsersFile(opened string) bool {
	return strings.Contains(opened, "/merged/") || slices.ContainsFunc(containers.UsersFiles, func(file string) bool { return path.Base(file) == path.Base(opened) })
}
