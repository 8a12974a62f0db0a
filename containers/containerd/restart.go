package containerd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// containerd's restart monitor lists the containers every ten seconds and starts
// each one whose label containerd.io/restart.status is "running" and whose task is
// not. Version 1.6 has no policies, so kollet sets the label while the container
// should run, and clears it while the monitor must not touch the container; newer
// versions see a policy with the same effect.
//
// The monitor may act on an old list and start a container that was stopped
// meanwhile. To prevent this, a container's log writer is started through a link
// that Start creates and Stop removes first: without a log writer the monitor
// cannot start the container. If the monitor has begun to start it, the log writer
// already runs, and Stop sees its process.

// loggerLink is the name of that link, in the container's directory.
const loggerLink = "log-writer"

func (e *Engine) link(id string) string { return filepath.Join(e.dir(id), loggerLink) }

// permit creates the link, so that the container can be started.
func (e *Engine) permit(id string) error {
	if err := os.MkdirAll(e.dir(id), 0o700); err != nil {
		return err
	}
	link := e.link(id)
	if target, err := os.Readlink(link); err == nil && target == e.logger {
		return nil
	}
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		return err
	}
	return os.Symlink(e.logger, link)
}

// permitted reports whether the container may be started: no if it was stopped, or is being stopped.
func (e *Engine) permitted(id string) bool {
	_, err := os.Lstat(e.link(id))
	return err == nil
}

// missingWriter says why the restart monitor could not start a container that it may start: the
// program that writes its log, kollet itself, is no longer where it was. Else empty.
func (e *Engine) missingWriter(id string) string {
	program, err := os.Readlink(e.link(id))
	if err != nil {
		return "" // it was stopped
	}
	if _, err := os.Stat(program); err != nil {
		return fmt.Sprintf("the program that writes its log is missing: %v", err)
	}
	return ""
}

// unlink removes the link, so that the monitor cannot start the container.
func (e *Engine) unlink(id string) error {
	if err := os.Remove(e.link(id)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// forbid keeps the monitor from starting a container, and from trying to.
func (e *Engine) forbid(ctx context.Context, c ctr.Container) error {
	if err := e.unlink(c.ID); err != nil || c.Labels[restart.StatusLabel] == "" {
		return err
	}
	return e.setLabels(ctx, c.ID, map[string]string{restart.StatusLabel: ""})
}

// watch makes the monitor restart a container, if that is its policy.
func (e *Engine) watch(ctx context.Context, c ctr.Container) error {
	if restartOf(c.Labels) == containers.RestartNo {
		return nil
	}
	return e.setLabels(ctx, c.ID, map[string]string{restart.StatusLabel: string(client.Running)})
}

// How often a start may collide with one that the restart monitor had begun before it was
// told not to, and the first pause after a collision, which doubles: a shim that is
// starting cannot be seen.
const (
	monitorTries = 7
	monitorPause = 50 * time.Millisecond
)

// startBeforeMonitor starts a container that the restart monitor is about to start too. The
// monitor is told not to, but it may have begun: then it deletes the task that another
// has just created, or has one itself.
func (e *Engine) startBeforeMonitor(ctx context.Context, c ctr.Container) error {
	var last error
	for try := range monitorTries {
		if err := e.forbid(ctx, c); err != nil {
			return err
		}
		now, err := e.awaitMonitor(ctx, c.ID)
		if err != nil {
			return err
		}
		if now.alive() {
			return errors.Join(e.permit(c.ID), e.watch(ctx, c))
		}
		if last = e.start(ctx, c, now); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return last
		case <-time.After(monitorPause << try):
		}
	}
	return last
}

// awaitMonitor waits until the restart monitor has finished a start that it has begun.
func (e *Engine) awaitMonitor(ctx context.Context, id string) (state, error) {
	for until := time.Now().Add(monitorTime); ; {
		starting := e.beingStarted(id) // before the task is looked for, as in stop
		now, err := e.look(ctx, id)
		begun := now.is(client.Created) || !now.exists() && starting
		if err != nil || !begun || time.Now().After(until) {
			return now, err
		}
		if err := pause(ctx); err != nil {
			return now, err
		}
	}
}

// monitorTime is how long the restart monitor may take to start a task that it has created.
// If containerd dies in between, nobody starts it.
const monitorTime = 30 * time.Second

// beingStarted reports whether a container is being started: its log writer starts
// before the task exists.
func (e *Engine) beingStarted(id string) bool {
	started, err := host.Real().HasProcess(e.link(id))
	return err == nil && started
}

// Update sets a container's name and restart policy.
func (e *Engine) Update(ctx context.Context, id, name string, policy containers.Restart) error {
	doing := fmt.Sprintf("updating container %s to %s", id, name)
	all, err := e.lockAll(ctx)
	if err != nil {
		return e.fail(doing, err)
	}
	defer all()
	found, err := e.named(ctx, id, name)
	if err != nil {
		return e.fail(doing, err)
	}
	c, err := pick(found, id)
	if err != nil {
		return e.fail(doing, err)
	}
	if policy == "" {
		policy = containers.RestartNo
	}
	if nameOf(c) == name && restartOf(c.Labels) == policy {
		return nil
	}
	if nameOf(c) != name {
		if err := nameIsFree(found, name, c.ID); err != nil {
			return e.fail(doing, err)
		}
	}
	set := map[string]string{nameLabel: name, restart.PolicyLabel: string(policy), restart.StatusLabel: ""}
	if policy != containers.RestartNo {
		up, err := e.isUp(ctx, c)
		if err != nil {
			return e.fail(doing, err)
		}
		if up {
			set[restart.StatusLabel] = string(client.Running)
		}
	}
	if err := e.setLabels(ctx, c.ID, set); err != nil {
		return e.fail(doing, err)
	}
	return nil
}

// isUp reports whether a container should run: it does, or the monitor is told to start it.
func (e *Engine) isUp(ctx context.Context, c ctr.Container) (bool, error) {
	if !e.permitted(c.ID) {
		return false, nil
	}
	if c.Labels[restart.StatusLabel] == string(client.Running) {
		return true, nil
	}
	now, err := e.look(ctx, c.ID)
	return now.is(client.Running) && e.permitted(c.ID), err // it may be stopped meanwhile
}

// pause waits for the interval between two polls, or until ctx ends.
func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(10 * time.Millisecond):
		return nil
	}
}
