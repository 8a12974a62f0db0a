package docker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
)

// undoTime bounds the removal of what a cancelled Create created.
const undoTime = 30 * time.Second

// Create creates a container from spec.
func (e *Engine) Create(ctx context.Context, spec containers.Spec) (string, error) {
	doing := "creating container " + spec.Name
	if err := spec.Check(); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	if err := checkSecurity(spec.Security); err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	spec = spec.Canonical()
	v2, err := e.hasCgroupV2(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: %w", doing, err)
	}
	volumes, err := e.absentVolumes(ctx, spec)
	if err != nil {
		return "", e.fail(doing, err)
	}
	id, err := e.create(ctx, spec, v2)
	if err == nil {
		err = e.checkDimensions(ctx, id, spec)
	}
	if err != nil {
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		if isUnreachable(err) {
			volumes = nil // they cannot be removed
		}
		for _, v := range volumes { // without force: one that another container uses by now stays
			if undone := e.client.VolumeRemove(undo, v, false); undone != nil && !errdefs.IsNotFound(undone) && !errdefs.IsConflict(undone) {
				err = errors.Join(err, fmt.Errorf("removing the new volume %s: %w", v, undone))
			}
		}
		return "", e.fail(doing, err)
	}
	return id, nil
}

// create sends the request and waits for the response even if ctx ends: the engine
// continues with a request whose client has disconnected, which would leave an
// unknown container.
func (e *Engine) create(ctx context.Context, spec containers.Spec, cgroupV2 bool) (string, error) {
	detached, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	config, host := toDocker(spec, cgroupV2)
	type answer struct {
		id  string
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		created, err := e.client.ContainerCreate(detached, config, host, nil, nil, spec.Name)
		answers <- answer{created.ID, err}
	}()
	select {
	case a := <-answers:
		return a.id, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answers:
		if a.err != nil {
			return "", ctx.Err()
		}
		undo, cancel := context.WithTimeout(detached, undoTime)
		defer cancel()
		err := e.client.ContainerRemove(undo, a.id, container.RemoveOptions{RemoveVolumes: true, Force: true})
		return "", errors.Join(ctx.Err(), err)
	case <-time.After(undoTime):
		return "", fmt.Errorf("%w, and docker has not answered for %v; it may have created the container", ctx.Err(), undoTime)
	}
}

// absentVolumes returns the spec's named volumes that do not exist yet.
func (e *Engine) absentVolumes(ctx context.Context, spec containers.Spec) ([]string, error) {
	absent := map[string]bool{}
	for _, m := range spec.Mounts {
		if m.Type != containers.Volume {
			continue
		}
		_, err := e.client.VolumeInspect(ctx, m.Source)
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, err
		}
		if err != nil {
			absent[m.Source] = true
		}
	}
	var names []string
	for name := range maps.Keys(absent) {
		names = append(names, name)
	}
	return names, nil
}
