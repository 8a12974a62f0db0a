package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/kollet/kollet/agent/host"
)

// pending opens the processes that clean up after a container. When one exits, its monitor starts such
// a process (podman container cleanup), which also starts the container again if its policy says so.
// They get the usual priority: kollet may have lowered that of the monitor while it replaced the
// container, and they hold the container's lock.
func pending(id string) ([]*host.Process, error) {
	machine := host.Real()
	pids, err := machine.Processes()
	if err != nil {
		return nil, err
	}
	var found []*host.Process
	for _, pid := range pids {
		if !cleansUp(machine, pid, id) {
			continue
		}
		process, err := host.Open(pid)
		if errors.Is(err, host.ErrExited) {
			continue
		}
		if err == nil && cleansUp(machine, pid, id) { // else the number is another process's by now
			found = append(found, process)
			err = machine.Restore(pid)
		} else {
			process.Close()
		}
		if err != nil {
			closeAll(found)
			return nil, err
		}
	}
	return found, nil
}

func closeAll(processes []*host.Process) {
	for _, p := range processes {
		p.Close()
	}
}

// awaitPending waits until no process is left that would start a container again by a policy which it
// no longer has. It reads the policy first, and then waits for the container's lock; of what has changed
// meanwhile, it reads the state alone (libpod/container_internal.go, syncContainer and shouldRestart).
// Those that start later read the new policy.
func awaitPending(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	found, err := pending(id)
	if err != nil {
		return err
	}
	defer closeAll(found)
	for _, p := range found {
		if err := p.Wait(ctx); err != nil {
			return fmt.Errorf("podman is cleaning up after an earlier run, and may start it again (process %d): %w", p.PID, err)
		}
	}
	return nil
}

// cleansUp reports whether a process is the one that Podman starts when a container exits. One
// in a container can have any arguments, but not the host's root directory, and one of another user
// is not Podman's: anyone could hold an upgrade up with it.
func cleansUp(machine host.Host, pid int, id string) bool {
	args, err := machine.CommandLine(pid)
	if err != nil || len(args) == 0 || args[len(args)-1] != id {
		return false
	}
	at := slices.Index(args, "cleanup")
	if at < 1 || args[at-1] != "container" || slices.Contains(args, "--exec") { // of a command
		return false
	}
	if !machine.IsRoots(pid) {
		return false
	}
	its, err := os.Stat(machine.ProcessPath(pid, "root"))
	if err != nil {
		return false
	}
	own, err := os.Stat(machine.ProcessPath(os.Getpid(), "root"))
	return err == nil && os.SameFile(its, own)
}
