package upgrade

import (
	"context"
	"fmt"
	"time"

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

// newTasks finds a group's staged containers.
func (t *transaction) newTasks(ctx context.Context, g group) ([]newTask, error) {
	var starting []newTask
	for _, m := range g {
		if m.new.Name == "" {
			continue
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
