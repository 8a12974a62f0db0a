package upgrade

import (
	"context"
	"fmt"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
)

// newTask is a staged container whose gate is about to be opened.
type newTask struct {
	id      string
	service generation.Service
	process *host.Process

	signalled, exited time.Time // when the old task was told to stop, and when it had; zero if there was none
	opened            time.Time // when its gate was opened
}

// newTasks finds a group's staged containers. Their gates are still closed: nothing of the
// old generation is stopped for a service that another let run.
func (t *transaction) newTasks(ctx context.Context, g group) ([]newTask, error) {
	var starting []newTask
	for _, m := range g {
		if m.new.Name == "" || m.returns() {
			continue
		}
		if err := t.requireClosed(m.name); err != nil {
			return nil, err
		}
		c, err := t.node.Container(ctx, m.name, t.to.Number)
		if err != nil {
			return nil, err
		}
		p, _, err := t.node.Host.OpenContainer(c.PID, c.ID)
		if err != nil {
			return nil, fmt.Errorf("the staged %s exited at its gate: %w", m.name, err)
		}
		starting = append(starting, newTask{id: c.ID, service: m.new, process: p})
	}
	return starting, nil
}

// requireClosed fails if the gate of a staged service is open before kollet opened it.
func (t *transaction) requireClosed(service string) error {
	if err := gate.RequireClosed(t.node.Store().Gate(t.to.Number, service)); err != nil {
		return fmt.Errorf("the staged %s: %w", service, err)
	}
	return nil
}
