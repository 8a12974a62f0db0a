package agent

import (
	"context"

	"github.com/kollet/kollet/agent/doctor"
)

// Doctor looks for what would make an upgrade fail before one is tried.
func (a *Agent) Doctor(ctx context.Context) []doctor.Check { return doctor.Run(ctx, a.node) }
