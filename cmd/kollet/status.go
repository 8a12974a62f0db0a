package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) status() *cobra.Command {
	var exitCode bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the node's services and their health",
		Long: `Status shows every service of the current generation as the engine reports it, and
runs each probe once. A service that exited by itself in the last five minutes is
"restarting" even if its probes pass. GENERATION is the one in which the service last
changed. It changes nothing.` + exitHelp(map[int]string{
			exitDone:   "success, whether the node is healthy or not",
			exitFailed: "failed; with --exit-code also if the node is not healthy or has no generation",
		}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet status
  kollet status --exit-code --output json`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			status, err := n.Status(ctx)
			switch {
			case err != nil:
				return nil, err
			case exitCode && !status.Healthy:
				return view.Status(status), statusError(exitFailed)
			}
			return view.Status(status), nil
		}),
	}
	cmd.Flags().BoolVar(&exitCode, "exit-code", false, "exit with 1 if the node is not healthy")
	return cmd
}
