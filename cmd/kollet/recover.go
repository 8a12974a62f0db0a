package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) recover() *cobra.Command {
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Finish or undo an interrupted upgrade",
		Long: `Recover reads the journal of an upgrade that was cut short, by a crash of kollet,
of the engine or of the machine, and brings the node to one of its two ends: an
upgrade that had committed is finished, any other is undone. Guests and named
volumes are kept. If nothing was interrupted it does nothing.

It runs at each boot, by the systemd unit that kollet bootstrap installs, and every command that changes the node begins with it.` + exitHelp(map[int]string{exitFailed: "failed; run it again once the cause is mended"}, exitDone, exitFailed, exitOperator, exitLocked),
		Example: `  kollet recover
  kollet recover --wait 5m`,
		Args: cobra.NoArgs,
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			recovery, err := n.Recover(ctx, wait)
			if err != nil && !recovery.Found {
				return nil, err
			}
			return view.Recovery(recovery), err
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the engine, if there is something to recover, such as `5m`")
	return cmd
}
