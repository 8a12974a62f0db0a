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
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// running finds the containers that a group's cut over has to stop: those of its
// services, and any that an operator created manually under a service's name, which may have no
// guests. A container that is paused or that the engine will start again is one of them.
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
			if c.Spec.Labels[node.LabelGeneration] != fmt.Sprint(t.to.Number) && !c.State.Stopped() {
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
		if manual.State.Stopped() || slices.Contains(old[m.name], manual.ID) {
			continue
		}
		if err := t.checkInside(manual); err != nil {
			return nil, err
		}
		old[m.name] = append(old[m.name], manual.ID)
	}
	return old, nil
}

// oldTask is a container that is about to be stopped.
type oldTask struct {
	container containers.Container
	service   generation.Service
	process   *host.Process // nil if the container is not running: paused, or between two runs
	cgroup    host.Cgroup   // of the process
	sorter    *guest.Sorter // tells what stays alive when it exits; nil: nothing does

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
			if errors.Is(err, containers.ErrNotFound) {
				continue // it was removed meanwhile
			}
			if err != nil {
				return nil, fmt.Errorf("prepare to stop %s: %w", m.name, err)
			}
			if old.container.State != containers.StateRestarting { // which may begin another run
				t.stopped[id] = old.container.Started
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
	if err := t.node.Hold(ctx, c); err != nil {
		return oldTask{}, err
	}
	if err := t.node.Engine.Update(ctx, id, c.Spec.Name, containers.RestartNo); err != nil {
		return oldTask{}, err
	}
	// Until the update, the engine may have started it again.
	if c, err = t.node.Engine.Inspect(ctx, id); err != nil {
		return oldTask{}, err
	}
	service := m.running()
	if grace, fitted := t.grace[m.name]; fitted {
		service.StopGracePeriod = grace
	}
	old := oldTask{container: c, service: service}
	if c.State != containers.StateRunning {
		return old, nil
	}
	old.process, old.cgroup, err = t.node.Host.OpenContainer(c.PID, c.ID)
	if errors.Is(err, host.ErrExited) {
		return old, nil
	}
	if err == nil && m.protects() {
		var ending []guest.Process
		if old.sorter, ending, err = protectInside(ctx, t.node, c, service); err == nil {
			err = t.warnOfEnding(m.name, ending)
		}
	}
	if err != nil || m.protects() && old.sorter == nil { // it has exited meanwhile
		old.process.Close()
		old.process = nil
	}
	return old, err
}

// protects reports whether guests are kept alive when the member's container
// exits. The new generation's setting takes precedence.
func (m member) protects() bool {
	guests := m.new.Guests
	if guests == nil {
		guests = m.old.Guests
	}
	if guests == nil {
		return m.hosts
	}
	return guests.Protect == nil || *guests.Protect
}

// stopOld stops an old task. If it is not running, only the engine can resume it, or
// knows whether another run is about to begin; and nobody is served meanwhile.
func (t *transaction) stopOld(ctx context.Context, old oldTask) error {
	if old.process == nil {
		return stopSafely(ctx, t.node, old.container, old.service)
	}
	return stopFast(ctx, t.node, old)
}

// stopFast ends a container's processes without the engine: the signal reaches
// the service a round trip earlier, and its exit is noticed at once. What it starts
// until then is born outside of the container, so that guests among it keep running.
func stopFast(ctx context.Context, n *node.Node, old oldTask) error {
	at := old.cgroup
	if old.sorter != nil {
		_, err := protectContainer(ctx, n, old.cgroup, old.sorter)
		if err != nil {
			return err
		}
		at, err = n.GuestFinder().Evacuate(ctx, old.cgroup, old.container.ID, old.process.PID)
		if err == nil {
			defer at.Remove()
		} else if !errors.Is(err, host.ErrExited) {
			return err
		}
	}
	if err := end(n, old); err != nil {
		return err
	}
	if old.sorter == nil {
		return killLeft(n, old.cgroup)
	}
	if err := endLeft(ctx, n, at, old.container.ID, old.sorter); err != nil {
		return err
	}
	return endLeft(ctx, n, old.cgroup, old.container.ID, old.sorter)
}

// killTime is how long a process may take to exit after it was killed.
const killTime = 10 * time.Second

// end tells the first process of a container to exit and waits until it has. Without
// a grace period it is killed. A service behind an init is killed before the init, so that it is
// not left alone if this kollet is killed in between.
func end(n *node.Node, old oldTask) error {
	if grace := old.service.StopGracePeriod; grace > 0 {
		if err := old.process.Signal(signalNumber(old.service.StopSignal)); err != nil {
			return err
		}
		exited, err := old.process.Exited(grace)
		if err != nil || exited {
			return err
		}
		n.Note(old.service.Name, "did not stop within %v and is killed", grace)
	}
	if err := endBehind(n, old.sorter); err != nil {
		return err
	}
	if err := old.process.Signal(unix.SIGKILL); err != nil {
		return err
	}
	return awaitKilled(n, old.process)
}

// endBehind kills the service that runs behind an init.
func endBehind(n *node.Node, sorter *guest.Sorter) error {
	if sorter == nil { // all that is left is killed
		return nil
	}
	behind, err := sorter.Behind()
	for _, p := range behind {
		defer p.Close()
	}
	if err != nil {
		return err
	}
	for _, p := range behind {
		if err := p.Signal(unix.SIGKILL); err != nil {
			return err
		}
		if err := awaitKilled(n, p); err != nil {
			return err
		}
	}
	return nil
}

// awaitKilled waits until a process that was killed has exited.
func awaitKilled(n *node.Node, p *host.Process) error {
	exited, err := p.Exited(killTime)
	if err != nil || exited {
		return err
	}
	if err := n.Host.Hangs(p.PID); err != nil {
		return err
	}
	return fmt.Errorf("process %d has not exited %v after it was killed", p.PID, killTime)
}

// cleanUp lets the engine notice that the containers have stopped. One that was created
// manually may be removed by the engine as soon as it has stopped (docker run --rm).
func (t *transaction) cleanUp(ctx context.Context, stopping []oldTask) error {
	for _, old := range stopping {
		err := t.node.Engine.Stop(ctx, old.container.ID, old.service.StopGracePeriod)
		if err != nil && !errors.Is(err, containers.ErrNotFound) {
			return fmt.Errorf("clean up after %s: %w", old.service.Name, err)
		}
	}
	return nil
}

// stopSafely stops a container, and keeps its guests alive.
func stopSafely(ctx context.Context, n *node.Node, c containers.Container, s generation.Service) error {
	if c.State != containers.StatePaused { // one that was killed exits when the engine resumes it
		// Docker would call a container exited while its processes hang.
		if _, err := endEnding(n, c.ID, func(p *host.Process) bool { return n.Host.Hangs(p.PID) != nil }); err != nil {
			return err
		}
	}
	if c.PID > 0 && (member{new: s}).protects() {
		sorter, ending, err := protectInside(ctx, n, c, s)
		if err != nil {
			return err
		}
		if len(ending) > 0 {
			n.Note(s.Name, "warning: %s", endingText(ending))
		}
		if sorter != nil && c.State == containers.StateRunning {
			if err := stopHosting(ctx, n, c, s, sorter); err != nil {
				return err
			}
		}
	}
	if err := stopEntirely(ctx, n, c.ID, s.StopGracePeriod); err != nil {
		return err
	}
	return endRemains(ctx, n, c, s)
}

// stopEntirely has the engine stop a container. Engines and runc look at the first thread of
// a process, and may take it for one that has exited while others run. It is killed here
// then, and only one that does not exit afterwards hangs.
func stopEntirely(ctx context.Context, n *node.Node, id string, grace time.Duration) error {
	stop := func() error {
		err := n.Engine.Stop(ctx, id, grace)
		if errors.Is(err, containers.ErrNotFound) {
			return nil
		}
		return err
	}
	failed := stop()
	if unanswering(failed) {
		return failed
	}
	ended, err := endEnding(n, id, func(*host.Process) bool { return true })
	if err != nil {
		return err
	}
	if failed != nil && ended > 0 {
		return stop() // it has exited now
	}
	return failed
}

// endEnding kills those of a container's processes that Ending finds and that are wanted, waits
// for their exit, and returns how many there were.
func endEnding(n *node.Node, id string, wanted func(*host.Process) bool) (int, error) {
	ending, err := n.Host.Ending(id)
	for _, p := range ending {
		defer p.Close()
	}
	if err != nil {
		return 0, err
	}
	ending = slices.DeleteFunc(ending, func(p *host.Process) bool { return !wanted(p) })
	for _, p := range ending {
		if err := p.Signal(unix.SIGKILL); err != nil {
			return 0, err
		}
	}
	for _, p := range ending {
		if err := awaitKilled(n, p); err != nil {
			return 0, err
		}
	}
	return len(ending), nil
}

// stopHosting ends the processes of a container that may start a guest until it exits.
// The engine would kill such a guest.
func stopHosting(ctx context.Context, n *node.Node, c containers.Container, s generation.Service, sorter *guest.Sorter) error {
	if c.Spec.Restart != containers.RestartNo { // the engine would start it again
		if err := n.Engine.Update(ctx, c.ID, c.Spec.Name, containers.RestartNo); unanswering(err) {
			return err
		}
	}
	process, cgroup, err := n.Host.OpenContainer(c.PID, c.ID)
	if errors.Is(err, host.ErrExited) {
		return nil
	}
	if err != nil {
		return err
	}
	defer process.Close()
	if err := n.Host.Deprioritize(cgroup.Shim); err != nil { // it kills what is left, as in a cutover
		return err
	}
	defer func() { _ = n.Host.Restore(cgroup.Shim) }()
	return host.RunUrgent(func() error {
		return stopFast(ctx, n, oldTask{container: c, service: s, process: process, cgroup: cgroup, sorter: sorter})
	})
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
