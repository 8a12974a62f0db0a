package agent

import (
	"context"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
)

// Verification is what `kollet verify` finds.
type Verification struct {
	Generation int          `json:"generation"`
	Services   int          `json:"services"`
	Drift      []plan.Drift `json:"drift"`
}

// Verify compares what runs with the current generation: each container, its
// image and spec, every file that is mounted into it and every copy that it
// made of one.
func (a *Agent) Verify(ctx context.Context) (Verification, error) {
	current, err := a.node.Current()
	if err != nil {
		return Verification{}, err
	}
	if current.Number == 0 {
		return Verification{}, node.ErrNoGeneration
	}
	drift, err := plan.FindDrift(ctx, a.node, current)
	return Verification{Generation: current.Number, Services: len(current.Services), Drift: drift}, err
}
