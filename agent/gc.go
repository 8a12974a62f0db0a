package agent

import (
	"context"

	"github.com/kollet/kollet/agent/upgrade"
)

// GC drops what nothing needs: generations beyond those kept for a rollback,
// replaced containers, and images that only they used.
func (a *Agent) GC(ctx context.Context) (upgrade.Garbage, error) {
	return upgrade.GC(ctx, a.node)
}
