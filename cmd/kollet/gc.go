package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) gc() *cobra.Command {
	return &cobra.Command{
		Use:   "gc",
		Short: "Remove generations, containers and images that are no longer needed",
		Long: `Gc removes generations beyond those that keep_generations keeps for a rollback,
replaced containers, and images that only these used. It also removes images that
kollet fetched for an upgrade that failed. It keeps whatever runs, everything that a
running guest was started from, and all named volumes. Each upgrade does the same when it
has committed.` + exitHelp(map[int]string{exitFailed: "failed; some may have been removed"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet gc`,
		Args:    takes(0, 0),
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			dropped, err := n.GC(ctx)
			if err != nil && len(dropped.Generations)+len(dropped.Containers)+len(dropped.Images) == 0 {
				return nil, err
			}
			return view.Garbage(dropped), err
		}),
	}
}
