package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) recover() *cobra.Command {
	return &cobra.Command{
		Use:   "recover",
		Short: "Finish or undo an interrupted upgrade",
		Long: `Recover reads the journal of an upgrade that was cut short, by a crash of kollet,
of the engine or of the machine, and brings the node to one of its two ends: an
upgrade that had committed is finished, any other is undone. Guests and named
volumes are kept. If nothing was interrupted it does nothing.

It runs at each boot, and every command that changes the node begins with it.` + exits(map[int]string{exitFailed: "failed; run it again once the cause is mended"}, exitDone, exitFailed, exitOperator, exitLocked),
		Example: `  kollet recover`,
		Args:    cobra.NoArgs,
		RunE: a.changing(func(ctx context.Context, node *agent.Agent, _ []string) (view.View, error) {
			recovery, err := node.Recover(ctx)
			if err != nil && !recovery.Found {
				return nil, err
			}
			return view.Recovery(recovery), err
		}),
	}
}
