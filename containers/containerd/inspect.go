package containerd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/errdefs"

	"github.com/kollet/kollet/containers"
)

// unknownStatus is the exit status of a container that exited unobserved because
// the host went down. Docker reports the same.
const unknownStatus = 255

// isContainerID matches the ids that kollet gives to containers.
var isContainerID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// find returns a container by id or name.
func (e *Engine) find(ctx context.Context, ref string) (ctr.Container, error) {
	if isContainerID.MatchString(ref) {
		c, err := e.client.ContainerService().Get(ctx, ref)
		if !errdefs.IsNotFound(err) {
			return c, err
		}
	}
	return e.findAny(ctx, ref)
}

// findAny returns a container by its name, or by an id that another tool gave it.
func (e *Engine) findAny(ctx context.Context, ref string) (ctr.Container, error) {
	found, err := e.named(ctx, ref)
	if err != nil {
		return ctr.Container{}, err
	}
	return pick(found, ref)
}

// named returns the containers that have one of some ids or names.
func (e *Engine) named(ctx context.Context, refs ...string) ([]ctr.Container, error) {
	var either []string
	for _, ref := range refs {
		either = append(either, fmt.Sprintf("id==%q", ref), fmt.Sprintf("labels.%q==%q", nameLabel, ref))
	}
	return e.client.ContainerService().List(ctx, either...)
}

// pick returns the one of some containers that has an id or a name. An id takes precedence.
func pick(found []ctr.Container, ref string) (ctr.Container, error) {
	at := slices.IndexFunc(found, func(c ctr.Container) bool { return c.ID == ref })
	if at < 0 {
		at = slices.IndexFunc(found, func(c ctr.Container) bool { return c.Labels[nameLabel] == ref })
	}
	if at < 0 {
		return ctr.Container{}, fmt.Errorf("no such container %s: %w", ref, errdefs.ErrNotFound)
	}
	return found[at], nil
}

// nameOf returns the name of a container.
func nameOf(c ctr.Container) string {
	if name := c.Labels[nameLabel]; name != "" {
		return name
	}
	return c.ID // kollet did not create it
}

// Inspect returns a container by id or name.
func (e *Engine) Inspect(ctx context.Context, id string) (containers.Container, error) {
	doing := "inspecting container " + id
	c, err := e.find(ctx, id)
	if err != nil {
		return containers.Container{}, e.fail(doing, err)
	}
	now, err := e.look(ctx, c.ID)
	if err != nil {
		return containers.Container{}, e.fail(doing, err)
	}
	out, err := e.describe(c, now)
	if err != nil {
		return containers.Container{}, e.fail(doing, err)
	}
	return out, nil
}

// describe returns a container whose task is in a state.
func (e *Engine) describe(c ctr.Container, now state) (containers.Container, error) {
	spec, err := specOf(c)
	if err != nil {
		return containers.Container{}, err
	}
	out := containers.Container{ID: c.ID, ImageID: c.Labels[imageLabel], Spec: spec, Created: c.CreatedAt, Restarts: e.restartsOf(c.ID), NoRestart: e.missingWriter(c.ID)}
	run := e.runOf(c.ID)
	before := lastRunOf(c.Labels)
	watched := c.Labels[restart.StatusLabel] == string(client.Running) // by the restart monitor
	switch {
	case now.is(client.Running):
		out.State, out.PID, out.Started = containers.StateRunning, now.pid, run
	case now.is(client.Stopped):
		out.State, out.Started, out.Finished, out.ExitCode = containers.StateExited, run, now.ExitTime, int(now.ExitStatus)
		if watched {
			out.State = containers.StateRestarting
		}
	case now.paused():
		out.State, out.PID, out.Started = containers.StatePaused, now.pid, run
	case now.exists() && !now.is(client.Created):
		out.State = containers.StateOther
	case watched: // no task, or one that is not started yet
		out.State, out.Started = containers.StateRestarting, run
	case !now.exists() && !run.Equal(before.Run) && time.Since(run) < monitorTime && e.writing(c.ID):
		out.State, out.Started = containers.StateOther, run // being started
	case !now.exists() && !run.Equal(before.Run):
		out.State, out.Started, out.Finished, out.ExitCode = containers.StateExited, run, run, unknownStatus
	default:
		out.State, out.Error, out.ExitCode = containers.StateCreated, before.Error, before.Code
		if !before.Finished.IsZero() {
			out.State, out.Started, out.Finished = containers.StateExited, before.Started, before.Finished
		}
	}
	return out, nil
}

// runOf returns when a container's last run began, from the file that its log
// writer creates; zero if it never ran.
func (e *Engine) runOf(id string) time.Time {
	text, err := os.ReadFile(filepath.Join(e.dir(id), runFile))
	if err != nil {
		return time.Time{}
	}
	at, _ := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
	return at
}

// List returns all containers that have every one of the labels.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]containers.Container, error) {
	const doing = "listing containers"
	var filters []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if labels[key] != "" { // containerd does not store empty labels
			filters = append(filters, fmt.Sprintf("labels.%q==%q", key, labels[key]))
		}
	}
	found, err := e.client.ContainerService().List(ctx, strings.Join(filters, ","))
	if err != nil {
		return nil, e.fail(doing, err)
	}
	states, err := e.lookAtAll(ctx, found)
	if err != nil {
		return nil, e.fail(doing, err)
	}
	out, err := containers.InspectAll(found, func(c ctr.Container) (containers.Container, error) {
		now, known := states[c.ID]
		if !known {
			var err error
			if now, err = e.look(ctx, c.ID); err != nil {
				return containers.Container{}, err
			}
		}
		out, err := e.describe(c, now)
		if err == nil && !containers.HasLabels(out.Spec.Labels, labels) {
			err = containers.ErrNotFound
		}
		return out, err
	})
	if err != nil {
		return nil, e.fail(doing, err)
	}
	return out, nil
}
