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
		Long: `Recover reads the journal of an upgrade that was interrupted by a crash of kollet,
the engine or the machine. It finishes an upgrade that had committed, and undoes
any other. Guests and named volumes are kept. If no upgrade was interrupted, it
does nothing; but if the last one was rolled back to a generation that was not healthy,
it reports whether that is healthy now.

The systemd unit that kollet bootstrap installs runs it at each boot, and every
command that changes the node runs it first.` + exitHelp(map[int]string{exitFailed: "failed, but no service is stopped because of the interrupted upgrade; fix the cause and run it again"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet recover
  kollet recover --wait 5m`,
		Args: takes(0, 0),
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			recovery, err := n.Recover(ctx, wait)
			if err != nil && !recovery.Found {
				return nil, err
			}
			return view.Recovery(recovery), err
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "`DURATION` to wait for the engine if there is something to recover, and for Nova if the compute service has to be enabled, such as 5m")
	return cmd
}
