package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/moby/sys/signal"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
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
		all, err := t.Engine.List(ctx, map[string]string{node.LabelNode: t.State(), node.LabelService: m.name})
		if err != nil {
			return nil, err
		}
		old[m.name] = []string{}
		for _, c := range all {
			if c.Spec.Labels[node.LabelGeneration] != fmt.Sprint(t.to.Number) && c.State == containers.StateRunning {
				old[m.name] = append(old[m.name], c.ID)
			}
		}
		byHand, err := t.Engine.Inspect(ctx, m.name)
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

// outgoing is a container that is about to be stopped.
type outgoing struct {
	container containers.Container
	service   generation.Service
	process   *host.Process
	cgroup    host.Cgroup
	protects  bool // guests stay alive when it ends

	told, ended time.Time // zero until it was told to end, and until it had
}

// firstMoments belong to the new process alone: the engine's cleaning up behind
// the old one, which kollet gives the lowest priority meanwhile, and the probes
// would take processors from it. docs/performance.md has what that is worth.
const firstMoments = 5 * time.Millisecond

// cutOver stops a group's old containers in reverse order and opens the new
// ones' gates in order, each once those that it comes after are healthy. Between
// the two there is nothing but the old process's own end: the engine cleans up
// behind it while the new one already runs.
func (t *transaction) cutOver(ctx context.Context, g group) error {
	if err := t.waitForAfter(ctx, g); err != nil {
		return err
	}
	leaving, err := t.outgoing(ctx, g)
	if err != nil {
		return err
	}
	defer func() {
		for _, out := range leaving {
			out.process.Close()
		}
	}()
	coming, err := t.incoming(ctx, g)
	if err != nil {
		return err
	}
	if err := t.succeed(ctx, leaving, coming); err != nil {
		return err
	}
	return t.cleanUp(ctx, leaving)
}

// succeed is the moment in which services are away.
func (t *transaction) succeed(ctx context.Context, leaving []outgoing, coming []incoming) error {
	for _, out := range leaving {
		if err := t.Host.Deprioritize(out.cgroup.Shim); err != nil {
			return err
		}
		defer func() { _ = t.Host.Restore(out.cgroup.Shim) }() // it ends soon
	}
	err := host.RunUrgent(func() error {
		if err := t.stopAll(ctx, leaving); err != nil {
			return err
		}
		return t.openAll(ctx, leaving, coming)
	})
	if err == nil && len(leaving) > 0 && len(coming) > 0 {
		time.Sleep(firstMoments)
	}
	return err
}

func (t *transaction) stopAll(ctx context.Context, leaving []outgoing) error {
	for i := range slices.Backward(leaving) {
		out := &leaving[i]
		out.told = time.Now()
		if err := t.stopFast(ctx, *out); err != nil {
			return fmt.Errorf("stop %s: %w", out.service.Name, err)
		}
		out.ended = time.Now()
	}
	return nil
}

func (t *transaction) openAll(ctx context.Context, leaving []outgoing, coming []incoming) error {
	for _, in := range coming {
		name := in.service.Name
		if err := t.waitForAfter(ctx, group{{name: name, new: in.service}}); err != nil {
			return err
		}
		if err := gate.Open(t.Store().Gate(t.to.Number, name)); err != nil {
			return fmt.Errorf("open the gate of %s: %w", name, err)
		}
		in.opened = time.Now()
		for _, out := range leaving {
			if out.service.Name == name {
				in.told, in.ended = out.told, out.ended
			}
		}
		t.watch.add(in)
	}
	return nil
}

// outgoing takes hold of everything that is needed to stop the old containers,
// and tells the engine not to restart them: all that may take time is done
// before the first of them is told to end.
func (t *transaction) outgoing(ctx context.Context, g group) ([]outgoing, error) {
	var leaving []outgoing
	for _, m := range g {
		for _, id := range t.old[m.name] {
			out, err := t.outgoingOne(ctx, m, id)
			if errors.Is(err, host.ErrEnded) {
				continue // it ended by itself meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("prepare to stop %s: %w", m.name, err)
			}
			leaving = append(leaving, out)
		}
	}
	return leaving, nil
}

func (t *transaction) outgoingOne(ctx context.Context, m member, id string) (outgoing, error) {
	c, err := t.Engine.Inspect(ctx, id)
	if err != nil {
		return outgoing{}, err
	}
	if err := t.Engine.Update(ctx, id, c.Spec.Name, containers.RestartNo); err != nil {
		return outgoing{}, err
	}
	p, err := host.Open(c.PID)
	if err != nil {
		return outgoing{}, err
	}
	cgroup, err := t.Host.CgroupOf(c.PID)
	if err != nil {
		p.Close()
		return outgoing{}, err
	}
	service := m.old
	if service.Name == "" { // put there by hand
		service = m.new
	}
	return outgoing{container: c, service: service, process: p, cgroup: cgroup, protects: m.protects()}, nil
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
func (t *transaction) stopFast(ctx context.Context, out outgoing) error {
	if err := out.process.Signal(signalNumber(out.service.StopSignal)); err != nil {
		return err
	}
	deadline := time.Now().Add(out.service.StopGrace)
	killed := false
	for {
		if out.protects {
			if err := t.protectContainer(ctx, out.cgroup, len(t.guests) > 0); err != nil {
				return err
			}
		}
		wait := time.Until(deadline)
		if out.protects {
			wait = min(wait, sweep)
		}
		ended, err := out.process.Ended(max(0, wait))
		if err != nil {
			return err
		}
		if ended {
			return t.killLeft(out)
		}
		if !killed && time.Now().After(deadline) {
			t.Note(out.service.Name, "did not stop within %v and is killed", out.service.StopGrace)
			if err := out.process.Signal(unix.SIGKILL); err != nil {
				return err
			}
			killed, deadline = true, time.Now().Add(time.Minute)
		} else if killed && time.Now().After(deadline) {
			return fmt.Errorf("process %d cannot be killed; it may hang in the kernel", out.process.PID)
		}
	}
}

// killLeft kills what the first process left behind in its container, as the
// runtime is about to do anyway, so that nothing of the old service lives when
// the new one starts. Guests and what they need were moved out before.
func (t *transaction) killLeft(out outgoing) error {
	pids, err := out.cgroup.Processes()
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
		if held, err := out.cgroup.Holds(pid); err != nil || len(held) == 0 {
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
func (t *transaction) cleanUp(ctx context.Context, leaving []outgoing) error {
	for _, out := range leaving {
		if err := t.Engine.Stop(ctx, out.container.ID, out.service.StopGrace); err != nil {
			return fmt.Errorf("clean up behind %s: %w", out.service.Name, err)
		}
	}
	return nil
}

// cutBack undoes a cut over, finished or not: the new containers are stopped in
// reverse order, then those that ran before are started in order.
func (t *transaction) cutBack(ctx context.Context, g group) error {
	for _, m := range slices.Backward(g) {
		if m.new.Name == "" {
			continue
		}
		c, err := t.Container(ctx, m.name, t.to.Number)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := t.stopSafely(ctx, c, m.new); err != nil {
			return fmt.Errorf("stop the new %s: %w", m.name, err)
		}
	}
	for _, m := range g {
		for _, id := range t.old[m.name] {
			if err := t.startAgain(ctx, id, m); err != nil {
				return fmt.Errorf("start the old %s: %w", m.name, err)
			}
		}
	}
	return nil
}

// stopSafely stops a container by the engine, its guests kept alive.
func (a *Agent) stopSafely(ctx context.Context, c containers.Container, s generation.Service) error {
	if c.State == containers.StateRunning && (member{new: s}).protects() {
		if err := a.protectInside(ctx, c); err != nil {
			return err
		}
	}
	return a.Engine.Stop(ctx, c.ID, s.StopGrace)
}

func (t *transaction) startAgain(ctx context.Context, id string, m member) error {
	err := t.Engine.Start(ctx, id)
	if errors.Is(err, containers.ErrNotFound) {
		t.Note(m.name, "the container that ran before was removed by hand; `kollet upgrade` makes a new one")
		return nil
	}
	if err != nil {
		return err
	}
	c, err := t.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	// A cut over that was killed in its middle has left its shim aside.
	if cgroup, err := t.Host.CgroupOf(c.PID); err == nil {
		_ = t.Host.Restore(cgroup.Shim)
	}
	restart := containers.RestartAlways
	if m.old.Name != "" {
		restart = m.old.Spec.Restart
	}
	return t.Engine.Update(ctx, id, c.Spec.Name, restart)
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
