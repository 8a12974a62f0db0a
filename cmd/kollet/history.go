package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) history() *cobra.Command {
	return &cobra.Command{
		Use:   "history [N]",
		Short: "Show the node's upgrades and how they ended",
		Long: `History lists the upgrades of this node, latest first, and the generations that
are kept for a rollback. With a number it shows one upgrade: how long each step
took, and each service's gap. It needs no engine and changes nothing.` + gapHelp + exitHelp(map[int]string{
			exitFailed: "failed, or the record of the current generation cannot be read; everything else is shown",
			exitInput:  "invalid input: no such upgrade",
		}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet history
  kollet history 4`,
		Args:              generationArg(1),
		ValidArgsFunction: a.generations,
		RunE: a.offline(func(_ context.Context, n *agent.Agent, args []string) (view.View, error) {
			entries, err := n.History()
			if err != nil {
				return nil, err
			}
			if len(args) == 0 {
				return view.History(entries), unreadable(entries...)
			}
			for _, e := range entries {
				if e.Generation == generationOf(args) {
					return view.Entry(e), unreadable(e)
				}
			}
			return nil, node.BadInput{Err: fmt.Errorf("no generation %s in the history; `kollet history` lists all", args[0])}
		}),
	}
}

// unreadable is the status if the record of the current generation is among what is shown,
// and cannot be read.
func unreadable(shown ...agent.Entry) error {
	if slices.ContainsFunc(shown, func(e agent.Entry) bool { return e.Current && e.Problem != "" }) {
		return statusError(exitFailed)
	}
	return nil
}
