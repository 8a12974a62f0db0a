package upgrade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// killLeft kills the processes that are left in a container after its first one
// exited. The runtime is about to do the same; kollet does not wait for it, so
// that nothing of the old service runs when the new one starts.
func killLeft(n *node.Node, cgroup host.Cgroup) error {
	pids, err := cgroup.Processes()
	if err != nil {
		return err
	}
	return killHeld(n, cgroup, pids...)
}

// killHeld kills those of the processes that are in a cgroup, and waits for their exit.
func killHeld(n *node.Node, cgroup host.Cgroup, pids ...int) error {
	var killed []*host.Process
	for _, pid := range pids {
		p, err := host.Open(pid)
		if errors.Is(err, host.ErrExited) {
			continue
		}
		if err != nil {
			return err
		}
		defer p.Close()
		if held, err := cgroup.Holds(pid); err != nil || len(held) == 0 {
			continue // the pid belongs to another process now
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
		killed = append(killed, p)
	}
	for _, p := range killed {
		if err := awaitKilled(n, p); err != nil {
			return err
		}
	}
	return nil
}

// roundsTime is how long endLeft kills one process at a time before it freezes all, and
// endTime how long it takes altogether.
const (
	roundsTime = 5 * time.Second
	endTime    = time.Minute
)

// endLeft is killLeft for a container with guests: it keeps them and their helpers. If the
// first process was an init or a shell, the service may run on without it, and start guests.
// So one process is killed at a time, the oldest first, and what is left is sorted again
// after each. What the service has just started, and what may become a guest at any moment,
// is younger than the service: when its turn comes, the service has exited, and has told
// nobody of a guest that is none by now. Processes that start each other again faster than
// that are frozen and killed together. id is that of the container.
func endLeft(ctx context.Context, n *node.Node, cgroup host.Cgroup, id string, sorter *guest.Sorter) error {
	began := n.Host.Now()
	for starting := began.Add(startTime); ; {
		took := n.Host.Now().Sub(began)
		if err := ctx.Err(); err != nil {
			return err
		}
		if took > endTime {
			return fmt.Errorf("its processes start each other again, and are not gone %v after they were killed", endTime)
		}
		if took > roundsTime && guest.Freezable(cgroup, id) {
			if err := endFrozen(ctx, n, cgroup, sorter); err != nil {
				return err
			}
		}
		left, err := sortLeft(ctx, n, cgroup, sorter)
		switch {
		case err != nil || len(left) == 0:
			return err
		case left[0].starts && n.Host.Now().Before(starting):
			time.Sleep(startInterval)
		default:
			if err := killHeld(n, cgroup, left[0].pid); err != nil {
				return err
			}
		}
	}
}

// sortLeft moves guests and their helpers out of a cgroup, and returns what is left in it.
func sortLeft(ctx context.Context, n *node.Node, cgroup host.Cgroup, sorter *guest.Sorter) ([]leftover, error) {
	pids, err := cgroup.Processes()
	if err != nil {
		return nil, err
	}
	left, err := leftIn(n, cgroup, pids) // before they are sorted: one that starts may be a guest then
	if err != nil {
		return nil, err
	}
	sorted, err := sorter.Sort(pids)
	if err != nil {
		return nil, err
	}
	kept := sorted.Kept()
	if err := n.GuestFinder().Protect(ctx, cgroup, kept); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(left, func(l leftover) bool { return slices.Contains(kept, l.pid) }), nil
}

// endFrozen kills all that is left in a cgroup at once, except guests and their helpers, which
// run again when they are moved out. What is frozen starts nothing. With cgroup v1 it takes
// SIGKILL when it is thawed, before it does anything else (get_signal in the kernel's
// kernel/signal.c).
func endFrozen(ctx context.Context, n *node.Node, cgroup host.Cgroup, sorter *guest.Sorter) error {
	killed, err := killFrozen(ctx, n, cgroup, sorter)
	for _, p := range killed {
		defer p.Close()
	}
	if err != nil {
		return err
	}
	for _, p := range killed {
		if err := awaitKilled(n, p); err != nil {
			return err
		}
	}
	return nil
}

func killFrozen(ctx context.Context, n *node.Node, cgroup host.Cgroup, sorter *guest.Sorter) (killed []*host.Process, err error) {
	defer func() { err = errors.Join(err, cgroup.Thaw()) }()
	if frozen, err := cgroup.Freeze(ctx); err != nil || !frozen {
		return nil, err
	}
	left, err := sortLeft(ctx, n, cgroup, sorter)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		p, err := host.Open(l.pid)
		if errors.Is(err, host.ErrExited) {
			continue
		}
		if err != nil {
			return killed, err
		}
		if held, err := cgroup.Holds(l.pid); err != nil || len(held) == 0 {
			p.Close()
			continue // the pid belongs to another process now
		}
		killed = append(killed, p)
		if err := p.Signal(unix.SIGKILL); err != nil {
			return killed, err
		}
	}
	return killed, nil
}

// endRemains ends what is left of a container that does not run, except guests and their
// helpers. A kollet that was killed had moved it out of the container's cgroup, so the
// runtime did not kill it with the first process: of a service that outlives its init, two
// would run when it is started again.
func endRemains(ctx context.Context, n *node.Node, c containers.Container, s generation.Service) error {
	if s.Guests == nil { // its processes are never moved
		return nil
	}
	cgroup, found, err := n.Host.Remains(c.ID)
	if err != nil || !found {
		return err
	}
	sorter, err := n.GuestFinder().SorterAfter(cgroup, s.Argv, s.Command)
	if err != nil {
		return err
	}
	return endLeft(ctx, n, cgroup, c.ID, sorter)
}

// While a process executes a program it has no arguments, and may be a guest a moment
// later. This is how long endLeft waits for them, and how often it looks.
const (
	startTime     = time.Second
	startInterval = 200 * time.Microsecond
)

// leftover is a process that is left in a container.
type leftover struct {
	pid    int
	start  uint64
	starts bool // it has no arguments yet
}

// leftIn returns those of the processes that run in a cgroup, the oldest first. Those
// without arguments come last.
func leftIn(n *node.Node, cgroup host.Cgroup, pids []int) ([]leftover, error) {
	var left []leftover
	for _, pid := range pids {
		held, err := cgroup.Holds(pid)
		if err != nil {
			return nil, err
		}
		if len(held) == 0 || hasExited(pid) {
			continue
		}
		lineage, err := n.Host.Lineage(pid)
		var args []string
		if err == nil {
			args, err = n.Host.CommandLine(pid)
		}
		if host.Gone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		left = append(left, leftover{pid, lineage.Start, len(args) == 0})
	}
	slices.SortFunc(left, func(a, b leftover) int {
		if a.starts != b.starts {
			if a.starts {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid))
	})
	return left, nil
}

func hasExited(pid int) bool {
	p, err := host.Open(pid)
	if err != nil {
		return errors.Is(err, host.ErrExited)
	}
	defer p.Close()
	exited, err := p.Exited(0)
	return exited && err == nil
}
