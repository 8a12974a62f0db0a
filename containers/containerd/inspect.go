package containerd

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"

	"github.com/kollet/kollet/containers"
)

// unknownStatus is the exit status of a container that exited unobserved because
// the host went down. Docker reports the same.
const unknownStatus = 255

// find returns a container by id or name.
func (e *Engine) find(ctx context.Context, ref string) (ctr.Container, error) {
	c, err := e.client.ContainerService().Get(ctx, ref)
	if err == nil || !errdefs.IsNotFound(err) && !errdefs.IsInvalidArgument(err) {
		return c, err
	}
	found, err := e.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%q", nameLabel, ref))
	if err != nil {
		return ctr.Container{}, err
	}
	for _, c := range found {
		return c, nil
	}
	return ctr.Container{}, fmt.Errorf("no such container %s: %w", ref, errdefs.ErrNotFound)
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
	out, err := e.inspect(ctx, c)
	if err != nil {
		return containers.Container{}, e.fail(doing, err)
	}
	return out, nil
}

func (e *Engine) inspect(ctx context.Context, c ctr.Container) (containers.Container, error) {
	spec, err := specOf(c)
	if err != nil {
		return containers.Container{}, err
	}
	now, err := e.look(ctx, c.ID)
	if err != nil {
		return containers.Container{}, err
	}
	out := containers.Container{ID: c.ID, ImageID: c.Labels[imageLabel], Spec: spec, Created: c.CreatedAt, Restarts: e.restartsOf(c.ID)}
	run := e.runOf(c.ID)
	before := lastRunOf(c.Labels)
	watched := c.Labels[restart.StatusLabel] == string(client.Running) // by the restart monitor
	switch {
	case now.Status.Status == client.Running:
		out.State, out.PID, out.Started = containers.StateRunning, now.pid, run
	case now.Status.Status == client.Stopped:
		out.State, out.Started, out.Finished, out.ExitCode = containers.StateExited, run, now.ExitTime, int(now.ExitStatus)
		if watched {
			out.State = containers.StateRestarting
		}
	case paused(now.Status):
		out.State, out.PID, out.Started = containers.StatePaused, now.pid, run
	case now.Status.Status != "" && now.Status.Status != client.Created:
		out.State = containers.StateOther
	case watched: // no task, or one that is not started yet
		out.State, out.Started = containers.StateRestarting, run
	case now.Status.Status == "" && !run.Equal(before.Run) && time.Since(run) < monitorTime && e.writing(c.ID):
		out.State, out.Started = containers.StateOther, run // being started
	case now.Status.Status == "" && !run.Equal(before.Run):
		out.State, out.Started, out.Finished, out.ExitCode = containers.StateExited, run, run, unknownStatus
	default:
		out.State, out.Error, out.ExitCode = containers.StateCreated, before.Error, before.Code
		if !before.Finished.IsZero() {
			out.State, out.Started, out.Finished = containers.StateExited, before.Started, before.Finished
		}
	}
	return out, nil
}

// state is the state of a container's task. Status is empty if there is no task.
type state struct {
	client.Status
	pid int
}

func paused(s client.Status) bool { return s.Status == client.Paused || s.Status == client.Pausing }

// shimTime is how long a shim may take to answer. If the caller of an Exec is
// killed, the shim waits 30 seconds for a reader of the command's output. Meanwhile that
// of containerd 1.6 does not answer (pkg/process/exec.go: start), and that of 2.4 does not say
// that the container has exited (cmd/containerd-shim-runc-v2/task/service.go: processExits).
const shimTime = 45 * time.Second

func silent(id string) error {
	return fmt.Errorf("its shim (containerd-shim-runc-v2 -id %s) has not answered for %v; kill that process", id, shimTime)
}

// look returns the state of a container's task. containerd asks the task's shim, and
// after two seconds without an answer returns the state Unknown, on which no
// decision may be based.
func (e *Engine) look(ctx context.Context, id string) (state, error) {
	for until := time.Now().Add(shimTime); ; {
		answer, err := e.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
		if err != nil {
			err = errgrpc.ToNative(err)
			if errdefs.IsNotFound(err) {
				err = nil
			}
			return state{}, err
		}
		p := answer.Process
		now := state{pid: int(p.Pid), Status: client.Status{
			Status:     client.ProcessStatus(strings.ToLower(p.Status.String())),
			ExitStatus: p.ExitStatus,
			ExitTime:   p.ExitedAt.AsTime(),
		}}
		if now.Status.Status != client.Unknown {
			return now, nil
		}
		if time.Now().After(until) {
			return state{}, silent(id)
		}
		if err := pause(ctx); err != nil {
			return state{}, err
		}
	}
}

// task returns a container's task and its status; nil if there is no task.
func (e *Engine) task(ctx context.Context, id string) (client.Task, client.Status, error) {
	c, err := e.client.LoadContainer(ctx, id)
	if err != nil {
		return nil, client.Status{}, err
	}
	for {
		now, err := e.look(ctx, id)
		if err != nil || now.Status.Status == "" {
			return nil, client.Status{}, err
		}
		task, err := c.Task(ctx, nil)
		if errdefs.IsNotFound(err) {
			return nil, client.Status{}, nil
		}
		// The client does not know the pid if the shim is silent again; without
		// it, deleting the task would not kill the process.
		if err != nil || task.Pid() != 0 || now.pid == 0 {
			return task, now.Status, err
		}
	}
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
	out, err := containers.InspectAll(found, func(c ctr.Container) (containers.Container, error) {
		out, err := e.inspect(ctx, c)
		if errdefs.IsNotFound(err) || err == nil && !containers.HasLabels(out.Spec.Labels, labels) {
			err = containers.ErrNotFound
		}
		return out, err
	})
	if err != nil {
		return nil, e.fail(doing, err)
	}
	return out, nil
}
