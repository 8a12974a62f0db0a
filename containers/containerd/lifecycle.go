package containerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/signal"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// startTime bounds how long containerd and runc may take to start a container. It
// is far more than they need.
const startTime = 2 * time.Minute

// locked looks up a container and keeps other callers from starting, stopping or
// removing it at the same time.
func (e *Engine) locked(ctx context.Context, ref string) (ctr.Container, func(), error) {
	if isContainerID.MatchString(ref) {
		c, unlock, err := e.lockedByID(ctx, ref)
		if !errdefs.IsNotFound(err) {
			return c, unlock, err
		}
	}
	c, err := e.findAny(ctx, ref)
	if err != nil {
		return c, nil, err
	}
	return e.lockedByID(ctx, c.ID)
}

// lockedByID looks up a container after it has the lock: until then another caller may change
// or remove it.
func (e *Engine) lockedByID(ctx context.Context, id string) (ctr.Container, func(), error) {
	unlock, failed := lockFile(ctx, e.lockOf(id))
	if failed != nil {
		unlock = func() {}
	}
	c, err := e.client.ContainerService().Get(ctx, id)
	if errdefs.IsNotFound(err) { // and never will be: an id is not used again
		_ = os.RemoveAll(e.lockOf(id))
	}
	if err = cmp.Or(err, failed); err != nil {
		unlock()
		return c, nil, err
	}
	return c, unlock, nil
}

// Start starts a created or stopped container.
func (e *Engine) Start(ctx context.Context, id string) error {
	c, unlock, err := e.locked(ctx, id)
	if err != nil {
		return e.fail("starting container "+id, err)
	}
	defer unlock()
	doing := "starting container " + nameOf(c)
	now, err := e.look(ctx, c.ID)
	if err != nil {
		return e.fail(doing, err)
	}
	if now.is(client.Running) {
		return nil
	}
	// containerd may continue with a request whose client has disconnected, so
	// wait for the response even if ctx is cancelled.
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if c.Labels[restart.StatusLabel] == string(client.Running) {
		err = e.startBeforeMonitor(ctx, c)
	} else {
		err = e.start(ctx, c, now)
	}
	if err != nil {
		return e.fail(doing, errors.Join(err, e.failed(ctx, c, err)))
	}
	return nil
}

// uncancelled returns a context that is not cancelled with ctx, and ends at its deadline or
// after startTime.
func uncancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	until := time.Now().Add(startTime)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	return context.WithDeadline(context.WithoutCancel(ctx), until)
}

// clear deletes the task that a container's last run left.
func (e *Engine) clear(ctx context.Context, c ctr.Container, now state) error {
	if !now.exists() {
		return e.forgetTask(ctx, c.ID)
	}
	if now.is(client.Stopped) {
		if err := e.record(ctx, c, int(now.ExitStatus), now.ExitTime); err != nil {
			return err
		}
	}
	err := e.destroy(ctx, c.ID, now)
	if errdefs.IsNotFound(err) { // another client has deleted it, or was killed meanwhile
		return e.forgetTask(ctx, c.ID)
	}
	return err
}

// start creates a task in place of the one that the last run left, and starts it. A
// program that cannot be executed makes creating the task fail.
func (e *Engine) start(ctx context.Context, c ctr.Container, now state) error {
	if err := e.clear(ctx, c, now); err != nil {
		return err
	}
	if err := e.checkUsers(ctx, c); err != nil {
		return err
	}
	if err := e.permit(c.ID); err != nil {
		return err
	}
	task, err := e.newTask(ctx, c)
	if err != nil {
		return err
	}
	if err := task.start(ctx); err != nil {
		left := e.destroy(ctx, c.ID, state{client.Status{Status: client.Created}, task.pid})
		if errdefs.IsNotFound(left) {
			left = nil
		}
		return errors.Join(err, left)
	}
	return e.watch(ctx, c)
}

// failed records why a container could not be started, and keeps the restart
// monitor from trying again.
func (e *Engine) failed(ctx context.Context, c ctr.Container, why error) error {
	l := lastRunOf(c.Labels)
	l.Run, l.Error = e.runOf(c.ID), failure.OneLine(why)
	if l.Finished.IsZero() {
		l.Code = 127 // as a shell and Docker for a command that cannot be run
	}
	return errors.Join(e.unlink(c.ID), e.setLabels(ctx, c.ID, map[string]string{restart.StatusLabel: "", lastRunLabel: l.label()}))
}

// record stores how a container exited, before its task is deleted.
func (e *Engine) record(ctx context.Context, c ctr.Container, code int, at time.Time) error {
	run := e.runOf(c.ID)
	l := lastRun{Run: run, Started: run, Finished: at, Code: code}
	return e.setLabels(ctx, c.ID, map[string]string{lastRunLabel: l.label()})
}

// Stop stops a container and waits until the engine has cleaned up.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	c, unlock, err := e.locked(ctx, id)
	if err != nil {
		return e.fail("stopping container "+id, err)
	}
	defer unlock()
	doing := "stopping container " + nameOf(c)
	err = e.stop(ctx, c, func(now state) (state, error) {
		return e.end(ctx, c, e.task(c.ID, now.pid), now, grace)
	})
	if err != nil {
		return e.fail(doing, err)
	}
	return nil
}

// resume lets the restart monitor watch a container again that was not stopped.
func (e *Engine) resume(ctx context.Context, c ctr.Container) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	now, err := e.look(ctx, c.ID)
	if err != nil || !now.alive() {
		return nil // the caller returns what went wrong
	}
	return errors.Join(e.permit(c.ID), e.watch(ctx, c))
}

// stop stops a container with a function that ends what runs, and deletes its task.
func (e *Engine) stop(ctx context.Context, c ctr.Container, end func(state) (state, error)) error {
	err := e.forbid(ctx, c)
	if err == nil {
		err = e.endAll(ctx, c, end)
	}
	if err != nil {
		return errors.Join(err, e.resume(ctx, c))
	}
	return nil
}

// endAll ends the tasks that a container has or is about to have. One that is being started has a
// task later, so its start is looked for first: only then there will be none. A container whose
// shim was killed looks as if it was being started, as long as a process holds the pipes of its
// output.
func (e *Engine) endAll(ctx context.Context, c ctr.Container, end func(state) (state, error)) error {
	deleted := false
	begun := time.Now()
	for sure := !e.writing(c.ID); ; sure = true { // one whose log is written has a task
		starting := sure && time.Since(begun) < monitorTime && e.beingStarted(c.ID)
		now, err := e.look(ctx, c.ID)
		if err != nil {
			return err
		}
		switch {
		case now.exists():
			if now.alive() {
				now, err = end(now)
			}
			if err == nil {
				err = e.clear(ctx, c, now)
			}
			if err != nil {
				return err
			}
			deleted = true
		case !sure:
		case starting:
			if err := pause(ctx); err != nil {
				return err
			}
		case deleted:
			return nil
		default:
			return e.forgetTask(ctx, c.ID)
		}
	}
}

// end sends the stop signal, waits for grace, and kills. A paused container does not
// see the signal before it is resumed. It returns the state after the exit.
func (e *Engine) end(ctx context.Context, c ctr.Container, task task, now state, grace time.Duration) (state, error) {
	sign, err := signal.ParseSignal(c.Labels[client.StopSignalLabel])
	if err != nil {
		sign = syscall.SIGTERM
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	exit := task.wait(waiting)
	if err := task.kill(ctx, sign, false); err != nil && !gone(err) {
		return now, err
	}
	if now.paused() {
		if err := task.resume(ctx); err != nil && !gone(err) {
			return now, err
		}
	}
	select {
	case status := <-exit:
		return now.exited(status)
	case <-ctx.Done():
		return now, ctx.Err()
	case <-time.After(time.Duration(math.Ceil(grace.Seconds())) * time.Second):
	}
	if err := task.killAll(ctx); err != nil {
		return now, err
	}
	for killed := time.Now(); ; {
		select {
		case status := <-exit:
			return now.exited(status)
		case <-ctx.Done():
			return now, ctx.Err()
		case <-time.After(containers.KillTime):
		}
		if syscall.Kill(task.pid, 0) == nil {
			return now, containers.ErrNotKilled
		}
		// It has exited, and its shim has not said so yet.
		if time.Since(killed) > shimTime {
			return now, silent(c.ID)
		}
	}
}

// Remove removes a stopped container.
func (e *Engine) Remove(ctx context.Context, id string) error {
	c, unlock, err := e.locked(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return e.fail("removing container "+id, err)
	}
	defer unlock()
	doing := "removing container " + nameOf(c)
	err = e.stop(ctx, c, func(now state) (state, error) {
		return now, fmt.Errorf("it is %s; stop it first", now.Status.Status)
	})
	if err != nil {
		return e.fail(doing, err)
	}
	if err := e.drop(ctx, c.ID); err != nil {
		return e.fail(doing, err)
	}
	return nil
}
