package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) history() *cobra.Command {
	return &cobra.Command{
		Use:   "history [N]",
		Short: "Show the node's upgrades and how they ended",
		Long: `History lists every upgrade of this node, the latest first, and which generations
are kept for a rollback. With a number it shows that one: how long each phase
took, and how long each service was away (in milliseconds after its old process
was told to stop: until that had ended, until the new one was let go, and until
every probe had passed). It needs no engine and changes nothing.` + exitHelp(map[int]string{
			exitFailed: "failed",
			exitInput:  "bad input: there is no such entry",
		}, exitDone, exitFailed, exitInput),
		Example: `  kollet history
  kollet history 4`,
		Args:              generationArg,
		ValidArgsFunction: a.generations,
		RunE: a.offline(func(_ context.Context, n *agent.Agent, args []string) (view.View, error) {
			entries, err := n.History()
			if err != nil {
				return nil, err
			}
			if len(args) == 0 {
				return view.History(entries), nil
			}
			for _, e := range entries {
				if e.Generation == generationOf(args) {
					return view.Entry(e), nil
				}
			}
			return nil, node.BadInput{Err: fmt.Errorf("the history has no generation %s; `kollet history` lists all", args[0])}
		}),
	}
}
