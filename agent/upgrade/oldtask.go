package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moby/sys/signal"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// running finds the containers that a group's cut over would stop: those of its
// services, and whatever somebody put in their place by hand.
func (t *transaction) running(ctx context.Context, g group) (map[string][]string, error) {
	old := map[string][]string{}
	for _, m := range g {
		// Not all containers of the node, for each of its services anew.
		all, err := t.node.Engine.List(ctx, map[string]string{node.LabelNode: t.node.State(), node.LabelService: m.name})
		if err != nil {
			return nil, err
		}
		old[m.name] = []string{}
		for _, c := range all {
			if c.Spec.Labels[node.LabelGeneration] != fmt.Sprint(t.to.Number) && c.State == containers.StateRunning {
				old[m.name] = append(old[m.name], c.ID)
			}
		}
		byHand, err := t.node.Engine.Inspect(ctx, m.name)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if byHand.State == containers.StateRunning && !slices.Contains(old[m.name], byHand.ID) {
			old[m.name] = append(old[m.name], byHand.ID)
		}
	}
	return old, nil
}

// oldTask is a container that is about to be stopped.
type oldTask struct {
	container containers.Container
	service   generation.Service
	process   *host.Process
	cgroup    host.Cgroup
	protects  bool // guests stay alive when it ends

	told, ended time.Time // zero until it was told to end, and until it had
}

// oldTasks takes hold of everything that is needed to stop the old containers,
// and tells the engine not to restart them: all that may take time is done
// before the first of them is told to end.
func (t *transaction) oldTasks(ctx context.Context, g group) ([]oldTask, error) {
	var stopping []oldTask
	for _, m := range g {
		for _, id := range t.previous[m.name] {
			old, err := t.oldTask(ctx, m, id)
			if errors.Is(err, host.ErrEnded) {
				continue // it ended by itself meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("prepare to stop %s: %w", m.name, err)
			}
			stopping = append(stopping, old)
		}
	}
	return stopping, nil
}

func (t *transaction) oldTask(ctx context.Context, m member, id string) (oldTask, error) {
	c, err := t.node.Engine.Inspect(ctx, id)
	if err != nil {
		return oldTask{}, err
	}
	if err := t.node.Engine.Update(ctx, id, c.Spec.Name, containers.RestartNo); err != nil {
		return oldTask{}, err
	}
	p, err := host.Open(c.PID)
	if err != nil {
		return oldTask{}, err
	}
	cgroup, err := t.node.Host.CgroupOf(c.PID)
	if err != nil {
		p.Close()
		return oldTask{}, err
	}
	service := m.old
	if service.Name == "" { // put there by hand
		service = m.new
	}
	return oldTask{container: c, service: service, process: p, cgroup: cgroup, protects: m.protects()}, nil
}

// protects reports whether guests are kept alive when the member's container
// ends, as the newest word on it has it.
func (m member) protects() bool {
	guests := m.new.Guests
	if guests == nil {
		guests = m.old.Guests
	}
	return guests != nil && (guests.Protect == nil || *guests.Protect)
}

// sweep is how often guests that have just been born are looked for while their
// libvirt ends.
const sweep = 5 * time.Millisecond

// stopFast ends a container's processes without the engine: its signal reaches
// the service a round trip earlier, and its end is known at once.
func (t *transaction) stopFast(ctx context.Context, old oldTask) error {
	if err := old.process.Signal(signalNumber(old.service.StopSignal)); err != nil {
		return err
	}
	deadline := time.Now().Add(old.service.StopGrace)
	killed := false
	for {
		if old.protects {
			if err := protectContainer(ctx, t.node, old.cgroup, len(t.guests) > 0); err != nil {
				return err
			}
		}
		wait := time.Until(deadline)
		if old.protects {
			wait = min(wait, sweep)
		}
		ended, err := old.process.Ended(max(0, wait))
		if err != nil {
			return err
		}
		if ended {
			return t.killLeft(old)
		}
		if !killed && time.Now().After(deadline) {
			t.node.Note(old.service.Name, "did not stop within %v and is killed", old.service.StopGrace)
			if err := old.process.Signal(unix.SIGKILL); err != nil {
				return err
			}
			killed, deadline = true, time.Now().Add(time.Minute)
		} else if killed && time.Now().After(deadline) {
			return fmt.Errorf("process %d cannot be killed; it may hang in the kernel", old.process.PID)
		}
	}
}

// killLeft kills what the first process left behind in its container, as the
// runtime is about to do anyway, so that nothing of the old service lives when
// the new one starts. Guests and what they need were moved out before.
func (t *transaction) killLeft(old oldTask) error {
	pids, err := old.cgroup.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		p, err := host.Open(pid)
		if errors.Is(err, host.ErrEnded) {
			continue
		}
		if err != nil {
			return err
		}
		defer p.Close()
		if held, err := old.cgroup.Holds(pid); err != nil || len(held) == 0 {
			continue // another process by now
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
		if _, err := p.Ended(time.Second); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp lets the engine catch up with what ended without it.
func (t *transaction) cleanUp(ctx context.Context, stopping []oldTask) error {
	for _, old := range stopping {
		if err := t.node.Engine.Stop(ctx, old.container.ID, old.service.StopGrace); err != nil {
			return fmt.Errorf("clean up behind %s: %w", old.service.Name, err)
		}
	}
	return nil
}

// stopSafely stops a container by the engine, its guests kept alive.
func stopSafely(ctx context.Context, n *node.Node, c containers.Container, s generation.Service) error {
	if c.State == containers.StateRunning && (member{new: s}).protects() {
		if err := protectInside(ctx, n, c); err != nil {
			return err
		}
	}
	return n.Engine.Stop(ctx, c.ID, s.StopGrace)
}

// signalNumber knows signals by name and by number, as engines do: systemd's
// images stop with SIGRTMIN+3.
func signalNumber(name string) unix.Signal {
	number, err := signal.ParseSignal(name)
	if err != nil || !signal.ValidSignalForPlatform(number) {
		return unix.SIGTERM
	}
	return number
}
