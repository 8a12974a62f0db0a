package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) plan() *cobra.Command {
	var to targetFlags
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what an upgrade would change",
		Long: `Plan compares the node file with the current generation, and the generation with
what actually runs. It shows each service that an upgrade would add, replace or
remove: its image, settings, files (as a diff without secrets) and drift. A service
whose probes or order alone change is updated in place: its container keeps running. First
it says whether an upgrade is running or was interrupted; what that one has replaced is
no drift. It changes nothing and pulls nothing.` +
			exitHelp(map[int]string{exitDone: "success, with or without changes", exitFailed: "failed"}, exitDone, exitFailed, exitInput, exitChanges, exitOperator),
		Example: `  kollet plan
  kollet plan --tag 26.2.2 --exit-code --output json`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			plan, err := n.Plan(ctx, to.options())
			switch {
			case err != nil:
				return nil, err
			case exitCode && !plan.Empty():
				return view.Plan(plan), statusError(exitChanges)
			}
			return view.Plan(plan), nil
		}),
	}
	to.add(cmd)
	to.addDrops(cmd)
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 3 if there are changes")
	return cmd
}
