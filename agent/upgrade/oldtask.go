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
// services, and any that an operator created manually under a service's name.
func (t *transaction) running(ctx context.Context, g group) (map[string][]string, error) {
	old := map[string][]string{}
	for _, m := range g {
		// By service: the node may have many others, and this runs once for each.
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
		manual, err := t.node.Engine.Inspect(ctx, m.name)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if manual.State == containers.StateRunning && !slices.Contains(old[m.name], manual.ID) {
			old[m.name] = append(old[m.name], manual.ID)
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
	protects  bool // guests stay alive when it exits

	signalled, exited time.Time // when it was told to stop, and when it had; zero before
}

// oldTasks collects everything needed to stop the old containers, and tells the
// engine not to restart them: whatever takes time happens before the first of
// them is told to stop.
func (t *transaction) oldTasks(ctx context.Context, g group) ([]oldTask, error) {
	var stopping []oldTask
	for _, m := range g {
		for _, id := range t.previous[m.name] {
			old, err := t.oldTask(ctx, m, id)
			if errors.Is(err, host.ErrExited) {
				continue // it exited by itself
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
	if service.Name == "" { // created manually
		service = m.new
	}
	return oldTask{container: c, service: service, process: p, cgroup: cgroup, protects: m.protects()}, nil
}

// protects reports whether guests are kept alive when the member's container
// exits. The new generation's setting takes precedence.
func (m member) protects() bool {
	guests := m.new.Guests
	if guests == nil {
		guests = m.old.Guests
	}
	return guests != nil && (guests.Protect == nil || *guests.Protect)
}

// sweep is how often kollet looks for guests that were started while their
// libvirt stops.
const sweep = 5 * time.Millisecond

// stopFast ends a container's processes without the engine: the signal reaches
// the service a round trip earlier, and its exit is noticed at once.
func (t *transaction) stopFast(ctx context.Context, old oldTask) error {
	if err := old.process.Signal(signalNumber(old.service.StopSignal)); err != nil {
		return err
	}
	deadline := t.node.Host.Now().Add(old.service.StopGracePeriod)
	killed := false
	for {
		if old.protects {
			if err := protectContainer(ctx, t.node, old.cgroup, len(t.guests) > 0); err != nil {
				return err
			}
		}
		wait := deadline.Sub(t.node.Host.Now())
		if old.protects {
			wait = min(wait, sweep)
		}
		ended, err := old.process.Exited(max(0, wait))
		if err != nil {
			return err
		}
		if ended {
			return t.killLeft(old)
		}
		if !killed && t.node.Host.Now().After(deadline) {
			t.node.Note(old.service.Name, "did not stop within %v and is killed", old.service.StopGracePeriod)
			if err := old.process.Signal(unix.SIGKILL); err != nil {
				return err
			}
			killed, deadline = true, t.node.Host.Now().Add(time.Minute)
		} else if killed && t.node.Host.Now().After(deadline) {
			return fmt.Errorf("process %d cannot be killed; it may hang in the kernel", old.process.PID)
		}
	}
}

// killLeft kills the processes that are left in a container after its first one
// exited. The runtime is about to do the same; kollet does not wait for it, so
// that nothing of the old service runs when the new one starts. Guests and their
// helpers were moved out before.
func (t *transaction) killLeft(old oldTask) error {
	pids, err := old.cgroup.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		p, err := host.Open(pid)
		if errors.Is(err, host.ErrExited) {
			continue
		}
		if err != nil {
			return err
		}
		defer p.Close()
		if held, err := old.cgroup.Holds(pid); err != nil || len(held) == 0 {
			continue // the pid belongs to another process now
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
		if _, err := p.Exited(time.Second); err != nil {
			return err
		}
	}
	return nil
}

// cleanUp lets the engine notice that the containers have stopped.
func (t *transaction) cleanUp(ctx context.Context, stopping []oldTask) error {
	for _, old := range stopping {
		if err := t.node.Engine.Stop(ctx, old.container.ID, old.service.StopGracePeriod); err != nil {
			return fmt.Errorf("clean up after %s: %w", old.service.Name, err)
		}
	}
	return nil
}

// stopSafely stops a container through the engine and keeps its guests alive.
func stopSafely(ctx context.Context, n *node.Node, c containers.Container, s generation.Service) error {
	if c.State == containers.StateRunning && (member{new: s}).protects() {
		if err := protectInside(ctx, n, c); err != nil {
			return err
		}
	}
	return n.Engine.Stop(ctx, c.ID, s.StopGracePeriod)
}

// signalNumber accepts names and numbers, as engines do: images with systemd stop
// with SIGRTMIN+3.
func signalNumber(name string) unix.Signal {
	number, err := signal.ParseSignal(name)
	if err != nil || !signal.ValidSignalForPlatform(number) {
		return unix.SIGTERM
	}
	return number
}
