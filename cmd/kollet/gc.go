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
		Short: "Drop generations that nothing needs",
		Long: `Gc drops the generations beyond those that the node file keeps for a rollback,
the containers that were replaced, and the images that only they used. What runs
stays, and so does everything that a running guest was started from, and every
named volume. An upgrade does the same at its end.` + exitHelp(map[int]string{exitFailed: "failed; some may have been dropped"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet gc`,
		Args:    cobra.NoArgs,
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			dropped, err := n.GC(ctx)
			if err != nil && len(dropped.Generations)+len(dropped.Containers)+len(dropped.Images) == 0 {
				return nil, err
			}
			return view.Garbage(dropped), err
		}),
	}
}
