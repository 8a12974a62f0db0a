package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// cutoverGrace belong to the new process alone: the engine's cleaning up behind
// the old one, which kollet gives the lowest priority meanwhile, and the probes
// would take processors from it. docs/performance.md has what that is worth.
const cutoverGrace = 5 * time.Millisecond

// cutOver stops a group's old containers in reverse order and opens the new
// ones' gates in order, each once those that it comes after are healthy. Between
// the two there is nothing but the old process's own end: the engine cleans up
// behind it while the new one already runs.
func (t *transaction) cutOver(ctx context.Context, g group) error {
	if err := t.waitForAfter(ctx, g); err != nil {
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
	return t.cleanUp(ctx, stopping)
}

// handOver is the moment in which services are away.
func (t *transaction) handOver(ctx context.Context, stopping []oldTask, starting []newTask) error {
	for _, old := range stopping {
		if err := t.node.Host.Deprioritize(old.cgroup.Shim); err != nil {
			return err
		}
		defer func() { _ = t.node.Host.Restore(old.cgroup.Shim) }() // it ends soon
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
		old.told = time.Now()
		if err := t.stopFast(ctx, *old); err != nil {
			return fmt.Errorf("stop %s: %w", old.service.Name, err)
		}
		old.ended = time.Now()
	}
	return nil
}

func (t *transaction) openAll(ctx context.Context, stopping []oldTask, starting []newTask) error {
	for _, task := range starting {
		name := task.service.Name
		if err := t.waitForAfter(ctx, group{{name: name, new: task.service}}); err != nil {
			return err
		}
		if err := gate.Open(t.node.Store().Gate(t.to.Number, name)); err != nil {
			return fmt.Errorf("open the gate of %s: %w", name, err)
		}
		task.opened = time.Now()
		for _, old := range stopping {
			if old.service.Name == name {
				task.told, task.ended = old.told, old.ended
			}
		}
		t.watch.add(task)
	}
	return nil
}

// revertCutover undoes a cut over, finished or not: the new containers are stopped in
// reverse order, then those that ran before are started in order.
func (t *transaction) revertCutover(ctx context.Context, g group) error {
	for _, m := range slices.Backward(g) {
		if m.new.Name == "" {
			continue
		}
		c, err := t.node.Container(ctx, m.name, t.to.Number)
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if err := stopSafely(ctx, t.node, c, m.new); err != nil {
			return fmt.Errorf("stop the new %s: %w", m.name, err)
		}
	}
	for _, m := range g {
		for _, id := range t.previous[m.name] {
			if err := t.startAgain(ctx, id, m); err != nil {
				return fmt.Errorf("start the old %s: %w", m.name, err)
			}
		}
	}
	return nil
}

func (t *transaction) startAgain(ctx context.Context, id string, m member) error {
	err := t.node.Engine.Start(ctx, id)
	if errors.Is(err, containers.ErrNotFound) {
		t.node.Note(m.name, "the container that ran before was removed by hand; `kollet upgrade` makes a new one")
		return nil
	}
	if err != nil {
		return err
	}
	c, err := t.node.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	// A cut over that was killed in its middle has left its shim aside.
	if cgroup, err := t.node.Host.CgroupOf(c.PID); err == nil {
		_ = t.node.Host.Restore(cgroup.Shim)
	}
	restart := containers.RestartAlways
	if m.old.Name != "" {
		restart = m.old.Spec.Restart
	}
	return t.node.Engine.Update(ctx, id, c.Spec.Name, restart)
}
