package recordings

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// engine holds containers as they were recorded. It does to them what an engine
// does, as far as recovery asks for it, and runs nothing: every probe passes. A
// method that recovery does not need panics.
type engine struct {
	containers.Engine
	byID    map[string]containers.Container
	started map[string]bool // by id
	changes []string        // what was changed
}

func newEngine(stateDir string, recorded []Container) *engine {
	e := &engine{byID: map[string]containers.Container{}, started: map[string]bool{}}
	for _, r := range recorded {
		state := containers.StateExited
		if r.Running {
			state = containers.StateRunning
		}
		e.byID[r.ID] = containers.Container{ID: r.ID, ImageID: r.ImageID, State: state, Spec: containers.Spec{
			Name: r.Name, Restart: r.Restart,
			Labels: map[string]string{node.LabelNode: stateDir, node.LabelService: r.Service, node.LabelGeneration: r.Generation},
		}}
	}
	return e
}

// all returns the containers in a fixed order.
func (e *engine) all() []containers.Container {
	return slices.SortedFunc(maps.Values(e.byID), func(a, b containers.Container) int {
		return slices.Compare([]string{a.Spec.Name}, []string{b.Spec.Name})
	})
}

func (e *engine) Info(context.Context) (containers.Info, error) {
	return containers.Info{Name: "docker", Root: "/"}, nil
}

func (e *engine) Inspect(_ context.Context, id string) (containers.Container, error) {
	if c, ok := e.byID[id]; ok {
		return c, nil
	}
	for _, c := range e.byID {
		if c.Spec.Name == id {
			return c, nil
		}
	}
	return containers.Container{}, fmt.Errorf("inspect %s: %w", id, containers.ErrNotFound)
}

func (e *engine) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	return slices.DeleteFunc(e.all(), func(c containers.Container) bool {
		for key, value := range labels {
			if c.Spec.Labels[key] != value {
				return true
			}
		}
		return false
	}), nil
}

// change changes a container, if there is anything to change.
func (e *engine) change(what, id string, change func(*containers.Container)) error {
	c, ok := e.byID[id]
	if !ok {
		return fmt.Errorf("%s %s: %w", what, id, containers.ErrNotFound)
	}
	was := fmt.Sprint(c)
	change(&c)
	if fmt.Sprint(c) != was {
		e.byID[id] = c
		e.changes = append(e.changes, what+" "+c.Spec.Name)
	}
	return nil
}

func (e *engine) Start(_ context.Context, id string) error {
	return e.change("start", id, func(c *containers.Container) {
		e.started[id] = e.started[id] || c.State != containers.StateRunning
		c.State = containers.StateRunning
	})
}

func (e *engine) Stop(_ context.Context, id string, _ time.Duration) error {
	return e.change("stop", id, func(c *containers.Container) { c.State = containers.StateExited })
}

func (e *engine) Update(_ context.Context, id, name string, restart containers.Restart) error {
	for _, other := range e.byID {
		if other.Spec.Name == name && other.ID != id {
			return fmt.Errorf("rename %s: %s has the name %s", id, other.ID, name)
		}
	}
	if c := e.byID[id]; e.started[id] && (c.Spec.Name != name || c.Spec.Restart != restart) {
		// While kollet-start executes the service, its main thread is a zombie,
		// and runc 1.1 reports that the container does not run.
		return fmt.Errorf("update %s: container not running", id)
	}
	return e.change("update", id, func(c *containers.Container) { c.Spec.Name, c.Spec.Restart = name, restart })
}

func (e *engine) Remove(_ context.Context, id string) error {
	c, ok := e.byID[id]
	if ok && c.State == containers.StateRunning {
		return fmt.Errorf("remove %s: it runs", id)
	}
	delete(e.byID, id)
	e.changes = append(e.changes, "remove "+c.Spec.Name)
	return nil
}

func (e *engine) RemoveImage(_ context.Context, id string) error {
	e.changes = append(e.changes, "remove image "+id)
	return nil
}

func (e *engine) Exec(_ context.Context, id string, _ containers.Exec) (int, error) {
	if c := e.byID[id]; c.State != containers.StateRunning {
		return 0, fmt.Errorf("exec in %s: it does not run", id)
	}
	return 0, nil
}
