package containerd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/signal"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// startTime bounds how long containerd and runc may take to start a container. It
// is far more than they need.
const startTime = 2 * time.Minute

// locked looks up a container and keeps other callers from starting, stopping or
// removing it at the same time.
func (e *Engine) locked(ctx context.Context, id string) (ctr.Container, func(), error) {
	c, err := e.find(ctx, id)
	if err != nil {
		return c, nil, err
	}
	unlock, err := lockFile(ctx, e.lockOf(c.ID))
	if err != nil {
		return c, nil, err
	}
	if c, err = e.find(ctx, c.ID); err != nil { // it may have been removed
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
	task, status, err := e.task(ctx, c.ID)
	if err != nil {
		return e.fail(doing, err)
	}
	if task != nil && status.Status == client.Running {
		return nil
	}
	// containerd may continue with a request whose client has disconnected, so
	// wait for the response even if ctx is cancelled.
	ctx, cancel := uncancelled(ctx)
	defer cancel()
	if c.Labels[restart.StatusLabel] == string(client.Running) {
		err = e.startBeforeMonitor(ctx, c)
	} else {
		err = e.start(ctx, c)
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
func (e *Engine) clear(ctx context.Context, c ctr.Container) error {
	for {
		task, status, err := e.task(ctx, c.ID)
		if err != nil {
			return err
		}
		if task == nil {
			return e.forgetTask(ctx, c.ID)
		}
		if status.Status == client.Stopped {
			if err := e.record(ctx, c, int(status.ExitStatus), status.ExitTime); err != nil {
				return err
			}
		}
		if err := destroy(ctx, task); err != nil {
			return err
		}
	}
}

// destroy kills the processes of a task and deletes it.
func destroy(ctx context.Context, task client.Task) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	if err := killAll(ctx, task); err != nil {
		return err
	}
	_, err := task.Delete(ctx, client.WithProcessKill)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// killAll kills the first process of a task, which may have been moved out of the
// container's cgroup, and what is in that.
func killAll(ctx context.Context, task client.Task) error {
	for _, option := range [][]client.KillOpts{nil, {client.WithKillAll}} {
		if err := task.Kill(ctx, syscall.SIGKILL, option...); err != nil && !gone(err) {
			return err
		}
	}
	return killFirst(task)
}

// killFirst kills the first process of a task that uses the host's pid namespace. Since
// version 1.2 runc kills only what is in the container's cgroup then
// (libcontainer/container_linux.go: Signal).
func killFirst(task client.Task) error {
	pid := int(task.Pid())
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil { // it has exited
		return nil
	}
	defer unix.Close(process)
	// The pid may be that of another process by now: this one's parent is its shim.
	shim, err := host.Real().Parent(pid)
	if err != nil {
		return nil
	}
	if line, err := host.Real().CommandLine(shim); err != nil || !slices.Contains(line, task.ID()) {
		return nil
	}
	if err := unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// start creates a task in place of the one that the last run left, and starts it. A
// program that cannot be executed makes creating the task fail.
func (e *Engine) start(ctx context.Context, c ctr.Container) error {
	if err := e.clear(ctx, c); err != nil {
		return err
	}
	if err := e.permit(c.ID); err != nil {
		return err
	}
	uri, err := logURI(c)
	if err != nil {
		return err
	}
	container, err := e.client.LoadContainer(ctx, c.ID)
	if err != nil {
		return err
	}
	task, err := e.newTask(ctx, c, container, cio.LogURI(uri))
	if err == nil {
		if err = task.Start(ctx); err != nil {
			err = errors.Join(err, destroy(ctx, task))
		}
	}
	if err != nil {
		return err
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
	return errors.Join(e.forbid(ctx, c.ID), e.setLabels(ctx, c.ID, map[string]string{lastRunLabel: l.label()}))
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
	if err := e.stop(ctx, c, grace); err != nil {
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return e.fail(doing, errors.Join(err, e.resume(again, c)))
	}
	return nil
}

// resume lets the restart monitor watch a container again that Stop did not stop.
func (e *Engine) resume(ctx context.Context, c ctr.Container) error {
	task, status, err := e.task(ctx, c.ID)
	if err != nil || task == nil || !alive(status) {
		return nil // Stop returns what went wrong
	}
	return errors.Join(e.permit(c.ID), e.watch(ctx, c))
}

func (e *Engine) stop(ctx context.Context, c ctr.Container, grace time.Duration) error {
	if err := e.forbid(ctx, c.ID); err != nil {
		return err
	}
	for begun := time.Now(); ; {
		task, status, err := e.task(ctx, c.ID)
		if err != nil {
			return err
		}
		if task == nil {
			// In this order, because a container that is being started has a
			// task later. One whose shim was killed looks the same as long as a
			// process holds the pipes of its output.
			starting := time.Since(begun) < monitorTime && e.beingStarted(c.ID)
			if task, status, err = e.task(ctx, c.ID); err != nil {
				return err
			}
			if task == nil && !starting {
				return e.forgetTask(ctx, c.ID)
			}
		}
		switch {
		case task == nil:
			if err := pause(ctx); err != nil {
				return err
			}
			continue
		case alive(status):
			if err := e.end(ctx, c, task, paused(status), grace); err != nil {
				return err
			}
		}
		if err := e.clear(ctx, c); err != nil {
			return err
		}
	}
}

// end sends the stop signal, waits for grace, and kills. A paused container does not
// see the signal before it is resumed.
func (e *Engine) end(ctx context.Context, c ctr.Container, task client.Task, frozen bool, grace time.Duration) error {
	sign, err := signal.ParseSignal(c.Labels[client.StopSignalLabel])
	if err != nil {
		sign = syscall.SIGTERM
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, err := task.Wait(waiting)
	if err != nil {
		return err
	}
	if err := task.Kill(ctx, sign); err != nil && !gone(err) {
		return err
	}
	if frozen {
		if err := task.Resume(ctx); err != nil && !gone(err) {
			return err
		}
	}
	select {
	case status := <-ended:
		return endOf(status)
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(math.Ceil(grace.Seconds())) * time.Second):
	}
	if err := killAll(ctx, task); err != nil {
		return err
	}
	for killed := time.Now(); ; {
		select {
		case status := <-ended:
			return endOf(status)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(containers.KillTime):
		}
		if syscall.Kill(int(task.Pid()), 0) == nil {
			return containers.ErrNotKilled
		}
		// It has exited, and its shim has not said so yet.
		if time.Since(killed) > shimTime {
			return silent(c.ID)
		}
	}
}

// endOf returns why a wait for a task's exit failed. A task that does not exist any longer
// has exited: the restart monitor deletes tasks too.
func endOf(status client.ExitStatus) error {
	if err := status.Error(); !errdefs.IsNotFound(err) {
		return err
	}
	return nil
}

func alive(s client.Status) bool { return s.Status == client.Running || paused(s) }

// gone reports whether an error is that of a signal to an exited process.
func gone(err error) bool { return errdefs.IsNotFound(err) || errdefs.IsFailedPrecondition(err) }

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
	task, status, err := e.task(ctx, c.ID)
	if err != nil {
		return e.fail(doing, err)
	}
	if task != nil && alive(status) {
		return fmt.Errorf("%s: it is %s; stop it first", doing, status.Status)
	}
	if err := e.stop(ctx, c, 0); err != nil {
		return e.fail(doing, err)
	}
	if err := e.drop(ctx, c.ID); err != nil {
		return e.fail(doing, err)
	}
	return nil
}
