package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) verify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Report drift from the current generation",
		Long: `Verify compares the node with its current generation: each container, its image
and settings, the files that are mounted into it, and the copies that it made of
them, with directories and links. Differences are changes that were made manually; ` + "`kollet upgrade`" + ` repairs
them by replacing the service. A missing file that kollet can make again, such as a gate, is restored,
and the service is not replaced. What an upgrade has replaced that is running, or was
interrupted, is not compared. Verify itself changes nothing.` + exitHelp(map[int]string{
			exitDone:   "nothing differs",
			exitFailed: "something differs, an upgrade was interrupted or its journal cannot be read, or the comparison failed",
		}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet verify
  kollet verify --output json`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			found, err := n.Verify(ctx)
			switch {
			case err != nil:
				return nil, err
			case len(found.Drift) > 0 || found.Interrupted || found.Problem != "":
				return view.Verification(found), statusError(exitFailed)
			}
			return view.Verification(found), nil
		}),
	}
}
