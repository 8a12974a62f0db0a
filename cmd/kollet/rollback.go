package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) rollback() *cobra.Command {
	var run upgrade.Options
	cmd := &cobra.Command{
		Use:   "rollback [N]",
		Short: "Return the node to an earlier generation",
		Long: `Rollback returns the node to generation N, or to the one before the current:
images and configuration together, as they were recorded. The node file is ignored
and not changed, so the next upgrade follows it again.

A rollback is an upgrade to a new generation with the content of the earlier one:
it is checked and verified, undone if it fails, and does not harm guests. --force is
that of ` + "`kollet upgrade`" + `. A rollback to 0 gives a node that ` + "`kollet adopt`" + ` took over back to
kolla-ansible, whose containers run again as they were. Just after the take-over, a rollback
without N does the same; on a node that was given back, it is refused. Named volumes keep their current data. ` + "`kollet history`" + ` lists the generations that are kept.` + gapHelp + exitHelp(nil, exitDone, exitFailed, exitInput, exitOperator, exitLocked, exitDeferred),
		Example: `  kollet rollback
  kollet rollback 3
  kollet rollback 0`,
		Args:              generationArg(0),
		ValidArgsFunction: a.generations,
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, args []string) (view.View, error) {
			begun := a.now()
			rollback := func() (upgrade.Result, error) { return n.Rollback(ctx, generationOf(args), run) }
			if len(args) == 1 && generationOf(args) == 0 {
				rollback = func() (upgrade.Result, error) { return n.ReturnToKolla(ctx, run) }
			}
			result, err := rollback()
			return a.upgradeView(result, begun), err
		}),
	}
	forceFlag(cmd, &run)
	return cmd
}
