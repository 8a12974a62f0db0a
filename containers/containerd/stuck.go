package containerd

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// runtimeInit is the name of runc in a container, before it executes the container's program.
const runtimeInit = "runc:[2:INIT]"

// stuckTime is how long it takes at least until a start is taken for one that waits: far more than
// runc needs for its last part in the container.
const stuckTime = 3 * time.Second

// killStuckStart kills runc in a container if it waits for a list of users, and has not executed the
// container's program yet. Then the shim answers again. It returns what runc waited for, nil if it
// did not.
func killStuckStart(id string) error {
	h := host.Real()
	pids, err := h.Processes()
	if err != nil {
		return nil //nolint:nilerr // then the engine's silence remains the error
	}
	for _, pid := range pids {
		if name, err := h.CommandName(pid); err != nil || name != runtimeInit {
			continue
		}
		if err := endStuck(h, pid, id); err != nil {
			return err
		}
	}
	return nil
}

func endStuck(h host.Host, pid int, id string) error {
	p, err := host.Open(pid)
	if err != nil {
		return nil //nolint:nilerr // it has exited
	}
	defer p.Close()
	age, err := h.Age(pid)
	if err != nil || age < stuckTime || !h.Runs(pid, id) {
		return nil //nolint:nilerr // as above
	}
	refused := checkInside(h, pid)
	if refused == nil {
		return nil
	}
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, host.ErrExited) {
		return fmt.Errorf("%w; kill the process %d (%s), which waits for it: %w", refused, pid, runtimeInit, err)
	}
	return refused
}

// checkInside checks what a process in a container sees.
func checkInside(h host.Host, pid int) error {
	for _, file := range containers.UsersFiles {
		f, err := h.HoldInside(pid, file, 0)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		_ = f.Close()
		if err != nil {
			continue
		}
		if err := containers.CheckUsers(file, file, info.Mode(), info.Size()); err != nil {
			return err
		}
	}
	return nil
}
