package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// cutoverGrace is how long the new process has the processors to itself. The
// probes wait for that long, and the engine, which cleans up after the old
// process, runs at the lowest priority. docs/performance.md has the figures.
const cutoverGrace = 5 * time.Millisecond

// cutOver stops a group's old containers in reverse order and opens the gates of
// the new ones in order, each after the services that it depends on are healthy.
// Between the two, kollet waits for nothing but the exit of the old process: the
// engine cleans up while the new process runs.
func (t *transaction) cutOver(ctx context.Context, g group) error {
	if err := t.waitForDependencies(ctx, g); err != nil {
		return err
	}
	stopping, err := t.oldTasks(ctx, g)
	if err != nil {
		return err
	}
	defer func() {
		for _, old := range stopping {
			old.process.Close()
		}
	}()
	starting, err := t.newTasks(ctx, g)
	if err != nil {
		return err
	}
	if err := t.handOver(ctx, stopping, starting); err != nil {
		return err
	}
	if err := t.cleanUp(ctx, stopping); err != nil {
		return err
	}
	return t.returnAll(ctx, g, stopping)
}

// handOver stops the old tasks and opens the gates of the new ones. Each
// service's gap begins in here, and ends when its new task answers.
func (t *transaction) handOver(ctx context.Context, stopping []oldTask, starting []newTask) error {
	for _, old := range stopping {
		if old.process == nil {
			continue
		}
		if err := t.node.Host.Deprioritize(old.cgroup.Shim); err != nil {
			return err
		}
		defer func() { _ = t.node.Host.Restore(old.cgroup.Shim) }() // the shim exits soon anyway
	}
	err := host.RunUrgent(func() error {
		if err := t.stopAll(ctx, stopping); err != nil {
			return err
		}
		return t.openAll(ctx, stopping, starting)
	})
	if err == nil && len(stopping) > 0 && len(starting) > 0 {
		time.Sleep(cutoverGrace)
	}
	return err
}

func (t *transaction) stopAll(ctx context.Context, stopping []oldTask) error {
	for i := range slices.Backward(stopping) {
		old := &stopping[i]
		if i+1 < len(stopping) {
			if err := t.awaitJobs(ctx, *old); err != nil {
				return fmt.Errorf("stop %s: %w", old.service.Name, err)
			}
		}
		old.signalled = t.node.Host.Now()
		if err := t.stopOld(ctx, *old); err != nil {
			return fmt.Errorf("stop %s: %w", old.service.Name, err)
		}
		old.exited = t.node.Host.Now()
	}
	return nil
}

func (t *transaction) openAll(ctx context.Context, stopping []oldTask, starting []newTask) error {
	for _, task := range starting {
		name := task.service.Name
		if err := t.waitForDependencies(ctx, group{{name: name, new: task.service}}); err != nil {
			return err
		}
		if err := gate.Open(t.node.Store().Gate(t.to.Number, name)); err != nil {
			return fmt.Errorf("open the gate of %s: %w", name, durable.Explain(err))
		}
		task.opened = t.node.Host.Now()
		for _, old := range stopping {
			if old.service.Name == name {
				task.signalled, task.exited = old.signalled, old.exited
			}
		}
		t.watch.add(task)
	}
	return nil
}

// revertCutover undoes a cutover, finished or not: it stops the new containers in
// reverse order, then starts those that ran before in order.
func (t *transaction) revertCutover(ctx context.Context, g group) error {
	for _, m := range slices.Backward(g) {
		if err := t.stopNew(ctx, m); err != nil {
			return fmt.Errorf("stop the new %s: %w", m.name, err)
		}
	}
	if t.triedCanary() {
		if _, err := t.killCanaries(); err != nil {
			return err
		}
	}
	told, err := t.toldToStop(ctx, g)
	if err != nil {
		return err
	}
	for _, m := range g {
		if err := t.revive(ctx, m, m.name == told); err != nil {
			return fmt.Errorf("start the old %s: %w", m.name, err)
		}
		if g.dependOn(m.name) {
			t.awaitAgain(ctx, m)
		}
	}
	return nil
}

// stopNew stops the new container of a member, if there is one.
func (t *transaction) stopNew(ctx context.Context, m member) error {
	if m.new.Name == "" {
		return nil
	}
	c, err := t.node.Container(ctx, m.name, m.new.Origin)
	if errors.Is(err, containers.ErrNotFound) && (m.old.Name == "" || m.old.Origin > 0) {
		c, err = t.node.Container(ctx, m.name, 0) // see standIn
		if err == nil && c.State.Stopped() {
			return nil
		}
	}
	if errors.Is(err, containers.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !node.IsAdopted(c) {
		return stopSafely(ctx, t.node, c, m.new)
	}
	if err := t.node.Hold(ctx, c); err != nil {
		return err
	}
	if err := stopSafely(ctx, t.node, c, m.new); err != nil {
		return err
	}
	return t.node.KeepStopped(ctx, c)
}

// toldToStop returns the service that a cutover of another process may have told to stop
// and that still runs; empty if there is none. It may take its grace period, and would exit
// after the recovery. The cutover has the engine restart none of the services, and then
// tells one after the other, the last one first.
func (t *transaction) toldToStop(ctx context.Context, g group) (string, error) {
	if !t.recovering {
		return "", nil
	}
	for _, m := range slices.Backward(g) {
		for _, id := range t.previous[m.name] {
			c, err := t.node.Engine.Inspect(ctx, id)
			if err != nil && !errors.Is(err, containers.ErrNotFound) {
				return "", err
			}
			if err != nil || c.State != containers.StateRunning || !t.node.Host.Runs(c.PID, c.ID) {
				continue
			}
			if told, err := t.mayBeTold(c); !told || err != nil {
				return "", err
			}
			return m.name, nil
		}
	}
	return "", nil
}

// mayBeTold reports whether a cutover has kept anything from restarting a container.
func (t *transaction) mayBeTold(c containers.Container) (bool, error) {
	if node.IsAdopted(c) {
		return t.node.IsHeld(c)
	}
	return c.Spec.Restart == containers.RestartNo, nil
}

// revive starts the container of a service that ran before the cutover, and still does if
// it was told to stop. If several ran, that is the old generation's, and the others stay
// stopped. One that cannot be started does not keep the other services from being started:
// previousHealthy says so, and an upgrade can replace it.
func (t *transaction) revive(ctx context.Context, m member, told bool) error {
	before, err := t.ranBefore(ctx, m)
	if err != nil || len(before) == 0 {
		return err
	}
	for _, c := range before[1:] {
		t.node.Note(m.name, "container %s stays stopped: it ran beside that of generation %d", c.Spec.Name, t.from.Number)
		if err := stopSafely(ctx, t.node, c, t.madeBefore(m, c)); err != nil {
			return err
		}
	}
	t.revived[m.name] = before[0].ID
	started, hangs := t.startPersistently(ctx, m, before, told)
	if started != nil && (hangs || !unanswering(started)) {
		t.node.Note(m.name, "cannot be started again: %v; `kollet recover` tries again, %s", started, t.recreate())
		return nil
	}
	return started
}

// mostHangs is how often the start of a container may hang before a rollback continues with the
// other services: each time it takes minutes.
const mostHangs = 2

// startPersistently starts the first of some containers again. It also reports whether this hangs,
// although the engine answers other questions.
func (t *transaction) startPersistently(ctx context.Context, m member, before []containers.Container, told bool) (started error, hangs bool) {
	c, hung := before[0], 0
	again := len(before) > 1 // it may have exited while the others were stopped, or run since the last try
	try := func() error {
		if again {
			now, err := t.node.Engine.Inspect(ctx, c.ID)
			if err != nil {
				return err
			}
			c = now
		}
		again = true
		return t.startAgain(ctx, c, m, told && c.PID == before[0].PID)
	}
	_ = persist(ctx, func() error {
		started = try()
		if errors.Is(started, context.DeadlineExceeded) && t.engineAnswers(ctx) {
			hung++
		}
		if hung == mostHangs {
			return nil
		}
		return started
	})
	return started, hung == mostHangs
}

// engineAnswers reports whether the engine is there.
func (t *transaction) engineAnswers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	_, err := t.node.Engine.Info(ctx)
	return err == nil
}

// recreate says how to replace a container to which a rollback cannot go back: an upgrade goes to
// what the node file says, which may fail again. None is possible on a node that kolla-ansible runs.
func (t *transaction) recreate() string {
	if t.from.Adopted() {
		return t.node.Redeploy() + " creates a new container, and `kollet adopt` then takes the node over"
	}
	if t.from.Number == 0 {
		return "`kollet upgrade` creates a new container"
	}
	return fmt.Sprintf("`kollet upgrade` creates a new container as the node file says, `kollet rollback %d` one of generation %d", t.from.Number, t.from.Number)
}

// unanswering reports whether an engine may give another answer later.
func unanswering(err error) bool {
	return errors.Is(err, containers.ErrUnreachable) || errors.Is(err, context.DeadlineExceeded)
}

// ranBefore returns the containers of a service that ran before the cutover and that
// can be started again, that of the old generation first.
func (t *transaction) ranBefore(ctx context.Context, m member) ([]containers.Container, error) {
	var before []containers.Container
	for _, id := range t.previous[m.name] {
		c, err := t.node.Engine.Inspect(ctx, id)
		if errors.Is(err, containers.ErrNotFound) || err == nil && c.State == containers.StateRemoving {
			t.node.Note(m.name, "the container that ran before was removed manually; %s", t.recreate())
			if err := t.node.LetGo(ctx, id); err != nil {
				t.node.Note(m.name, "warning: %v", err)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		before = append(before, c)
	}
	slices.SortStableFunc(before, func(a, b containers.Container) int {
		switch {
		case belongs(t.from, a) && !belongs(t.from, b):
			return -1
		case belongs(t.from, b) && !belongs(t.from, a):
			return 1
		}
		return 0
	})
	return before, nil
}

// awaitAgain waits until a service that was started again is healthy, because
// others of its group depend on it. If it does not get there, previousHealthy says
// so.
func (t *transaction) awaitAgain(ctx context.Context, m member) {
	if c, err := t.node.Engine.Inspect(ctx, t.revived[m.name]); err == nil {
		_ = health.Ready(ctx, health.Of(t.node.Engine, t.node.Host, c, m.old.User), m.old.Healthcheck)
	}
}

// startAgain starts a container that ran before the cutover. It updates it before:
// runc 1.1 takes a process that executes another program from a thread, as
// kollet-start does, for one that has ended, and Docker's update then fails. A
// paused container, which the cutover did not get to, cannot be started, and one that the
// cutover stopped not before the engine has noticed that it does not run. One that was told
// to stop has to have done so.
func (t *transaction) startAgain(ctx context.Context, c containers.Container, m member, told bool) error {
	exited := c.State == containers.StateRunning && !t.node.Host.Runs(c.PID, c.ID)
	if told || exited || c.State == containers.StatePaused {
		if err := stopSafely(ctx, t.node, c, t.madeBefore(m, c)); err != nil {
			return err
		}
	}
	if c.State.Stopped() {
		if err := endRemains(ctx, t.node, c, t.madeBefore(m, c)); err != nil {
			return err
		}
	}
	if c.PID > 0 { // if it has exited later, kollet recover starts it
		if err := t.node.Host.Killed(c.PID); err != nil {
			return err
		}
	}
	if node.IsAdopted(c) {
		return t.node.Return(ctx, c, false)
	}
	restart := containers.RestartAlways
	if m.old.Name != "" {
		restart = m.old.Spec.Restart
	}
	if err := t.node.Engine.Update(ctx, c.ID, c.Spec.Name, restart); err != nil {
		return err
	}
	if err := t.node.Engine.Start(ctx, c.ID); err != nil {
		return err
	}
	c, err := t.node.Engine.Inspect(ctx, c.ID)
	if err != nil {
		return err
	}
	// A cut over that was killed left its shim at the lowest priority.
	if cgroup, err := t.node.Host.ContainerCgroup(c.PID, c.ID); err == nil {
		_ = t.node.Host.Restore(cgroup.Shim)
	}
	return nil
}
