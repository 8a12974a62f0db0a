package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// Start starts a created or stopped container.
func (e *Engine) Start(ctx context.Context, id string) error {
	if err := e.refuseUsers(ctx, id); err != nil {
		return err
	}
	err := e.client.ContainerStart(ctx, id, container.StartOptions{})
	if err != nil {
		err = e.startWithoutStale(ctx, id, err)
	}
	if err != nil {
		return e.fail("starting container "+e.nameOf(ctx, id), err)
	}
	return nil
}

// Stop stops a container and waits until the engine has cleaned up.
func (e *Engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	// A negative number would wait indefinitely.
	seconds := max(0, int(math.Ceil(grace.Seconds())))
	doing := func() string { return "stopping container " + e.nameOf(ctx, id) }
	stopping, cancel := context.WithTimeoutCause(ctx, time.Duration(seconds)*time.Second+containers.KillTime, containers.ErrNotKilled)
	defer cancel()
	if err := e.client.ContainerStop(stopping, id, container.StopOptions{Timeout: &seconds}); err != nil {
		if errors.Is(context.Cause(stopping), containers.ErrNotKilled) && e.answers(ctx) {
			return fmt.Errorf("%s: %w", doing(), containers.ErrNotKilled)
		}
		return e.fail(doing(), err)
	}
	// The engine responds when the process has exited, and cleans up with the
	// container's lock held. Inspecting the container waits for that lock.
	c, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return e.fail(doing(), err)
	}
	if c.State.Running {
		return fmt.Errorf("%s: it is %s again after docker stopped it; stop what starts it", doing(), c.State.Status)
	}
	return nil
}

// answers tells an engine that cannot stop a container from one that hangs itself.
func (e *Engine) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err := e.client.Ping(ctx)
	return err == nil
}

// Update sets a container's name and restart policy.
func (e *Engine) Update(ctx context.Context, id, name string, restart containers.Restart) error {
	doing := fmt.Sprintf("updating container %s to %s", id, name)
	c, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return e.fail(doing, err)
	}
	if strings.TrimPrefix(c.Name, "/") != name {
		if err := e.client.ContainerRename(ctx, id, name); err != nil {
			return e.fail(doing, err)
		}
	}
	have := c.HostConfig.RestartPolicy
	want := toPolicy(restart)
	if have.IsSame(&want) || have.IsNone() && want.IsNone() {
		return nil
	}
	if err := e.setPolicy(ctx, id, want); err != nil {
		return e.fail(doing, err)
	}
	return nil
}

// Remove removes a stopped container.
func (e *Engine) Remove(ctx context.Context, id string) error {
	// RemoveVolumes removes anonymous volumes only, which the image declares.
	err := e.client.ContainerRemove(ctx, id, container.RemoveOptions{RemoveVolumes: true})
	switch {
	case err == nil, errdefs.IsNotFound(err):
		return nil
	case e.errors.Is(failure.BeingRemoved, err):
		return e.awaitRemoval(ctx, id)
	}
	return e.fail("removing container "+e.nameOf(ctx, id), err)
}

// awaitRemoval waits for a removal that another client began.
func (e *Engine) awaitRemoval(ctx context.Context, id string) error {
	doing := "removing container " + id
	done, failed := e.client.ContainerWait(ctx, id, container.WaitConditionRemoved)
	var err error
	select {
	case <-done:
	case err = <-failed:
		if errdefs.IsNotFound(err) {
			return nil
		}
	}
	if err == nil { // the wait also ends when the removal failed
		_, err = e.client.ContainerInspect(ctx, id)
		if errdefs.IsNotFound(err) {
			return nil
		}
	}
	if err == nil {
		return fmt.Errorf("%s: the removal that was in progress failed; try again", doing)
	}
	return e.fail(doing, err)
}

// nameOf returns the name of a container for an error, even if ctx has ended. It
// is called only for errors, because a request takes milliseconds of a cutover.
func (e *Engine) nameOf(ctx context.Context, id string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	c, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return id
	}
	return strings.TrimPrefix(c.Name, "/")
}
