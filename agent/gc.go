package agent

import (
	"context"

	"github.com/kollet/kollet/agent/upgrade"
)

// GC drops what nothing needs: generations beyond those kept for a rollback,
// replaced containers, and images that only they used.
func (a *Agent) GC(ctx context.Context) (upgrade.Garbage, error) {
	unlock, err := a.node.Lock()
	if err != nil {
		return upgrade.Garbage{}, err
	}
	defer unlock()
	if _, err := upgrade.RecoverLocked(ctx, a.node); err != nil {
		return upgrade.Garbage{}, err
	}
	current, err := a.node.Current()
	if err != nil {
		return upgrade.Garbage{}, err
	}
	return upgrade.Collect(ctx, a.node, current)
}
