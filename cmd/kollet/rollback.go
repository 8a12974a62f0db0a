package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) rollback() *cobra.Command {
	return &cobra.Command{
		Use:   "rollback [N]",
		Short: "Take the node back to an earlier generation",
		Long: `Rollback takes the node to what it was in generation N, or in the one before the
current: images and configuration together, as they were recorded. The node file
does not count, and is not changed: the next upgrade follows it again.

It is an upgrade like any other, to a new generation that equals the earlier
one: verified, undone if it fails, and without harm to guests. Named volumes keep
the data that they have now. ` + "`kollet history`" + ` tells which generations are kept.` + exitHelp(nil, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet rollback
  kollet rollback 3`,
		Args:              generationArg,
		ValidArgsFunction: a.generations,
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, args []string) (view.View, error) {
			begun := a.now()
			result, err := n.Rollback(ctx, generationOf(args))
			return a.upgradeView(result, begun), err
		}),
	}
}
