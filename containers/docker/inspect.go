package docker

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/kollet/kollet/containers"
)

// Inspect returns a container by its full id or its name. The engine also accepts the
// beginning of an id, which a name such as "db" or "fe" can be.
func (e *Engine) Inspect(ctx context.Context, id string) (containers.Container, error) {
	doing := "inspecting container " + id
	c, err := e.client.ContainerInspect(ctx, id)
	if err != nil {
		return containers.Container{}, e.fail(doing, err)
	}
	if c.ID != id && c.Name != "/"+id {
		return containers.Container{}, e.fail(doing, fmt.Errorf("no container has this id or name: %w", errdefs.ErrNotFound))
	}
	image, err := e.imageConfig(ctx, c.Image)
	if err != nil && !errdefs.IsNotFound(err) {
		return containers.Container{}, e.fail(doing, err)
	}
	out := containers.Container{
		ID:       c.ID,
		ImageID:  c.Image,
		Spec:     fromDocker(c, image),
		State:    stateOf(c.State),
		ExitCode: c.State.ExitCode,
		Restarts: c.RestartCount,
		Error:    c.State.Error,
	}
	if readExplicit(c.Config.Labels) == nil {
		out.Anonymous = anonymous(c)
		out.Unhealthy = c.State.Health != nil && c.State.Health.Status == container.Unhealthy
		if out.Extra, err = e.extra(ctx, c); err != nil {
			return containers.Container{}, err
		}
	}
	if out.State == containers.StateRunning || out.State == containers.StatePaused {
		out.PID = c.State.Pid
	}
	for _, t := range []struct {
		into *time.Time
		text string
	}{{&out.Created, c.Created}, {&out.Started, c.State.StartedAt}, {&out.Finished, c.State.FinishedAt}} {
		if *t.into, err = time.Parse(time.RFC3339Nano, t.text); err != nil {
			return containers.Container{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	return out, nil
}

func stateOf(s *container.State) containers.State {
	switch s.Status {
	case container.StateCreated:
		return containers.StateCreated
	case container.StateRunning:
		return containers.StateRunning
	case container.StateRestarting:
		return containers.StateRestarting
	case container.StateExited:
		return containers.StateExited
	case container.StatePaused:
		return containers.StatePaused
	case container.StateRemoving, container.StateDead:
		return containers.StateRemoving
	}
	return containers.StateOther
}

// List returns all containers that have every one of the labels.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]containers.Container, error) {
	query := filters.NewArgs()
	for key, value := range labels {
		query.Add("label", key+"="+value)
	}
	found, err := e.client.ContainerList(ctx, container.ListOptions{All: true, Filters: query})
	if err != nil {
		return nil, e.fail("listing containers", err)
	}
	// Docker's labels of a container include those of its image, which anyone may have made.
	// Inspect has only those that the container was created with.
	all, err := containers.InspectAll(found, func(c container.Summary) (containers.Container, error) { return e.Inspect(ctx, c.ID) })
	return slices.DeleteFunc(all, func(c containers.Container) bool { return !containers.HasLabels(c.Spec.Labels, labels) }), err
}
