package agent

import (
	"context"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
)

// Verification is what `kollet verify` finds.
type Verification struct {
	Generation int          `json:"generation"`
	Services   int          `json:"services"` // that were compared
	Drift      []plan.Drift `json:"drift"`
	node.Underway
	CutOver []string `json:"cut_over,omitempty"` // services that were not compared: the upgrade that is under way replaces them
}

// Verify compares what runs with the current generation: each container, its
// image and spec, every file that is mounted into it and every copy that it
// made of one.
func (a *Agent) Verify(ctx context.Context) (Verification, error) {
	v := Verification{Underway: a.node.Underway(), CutOver: a.node.CutOver()}
	current, err := a.node.Current()
	if err != nil {
		return Verification{}, err
	}
	if current.Number == 0 {
		return Verification{}, node.ErrNoGeneration
	}
	v.Generation, v.Services = current.Number, len(current.Services)
	v.Drift, err = plan.FindDrift(ctx, a.node, current)
	v.CutOver = slices.DeleteFunc(v.CutOver, func(name string) bool {
		return !slices.ContainsFunc(current.Services, func(s generation.Service) bool { return s.Name == name })
	})
	v.Services -= len(v.CutOver)
	return v, err
}
