package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) pull() *cobra.Command {
	var to targetFlags
	cmd := &cobra.Command{
		Use:   "pull",
		Short: "Fetch the images of the next upgrade ahead of it",
		Long: `Pull reads the node file as ` + "`kollet upgrade`" + ` does, mistakes and all, and fetches
the images that the upgrade would need and that are not on this machine yet, so
that a maintenance window does not wait for the network. It changes nothing else:
what runs is not touched, and an upgrade that was interrupted stays as it is.

The images stay until an upgrade uses them; then its generation keeps them. If
another pull takes their place, the next upgrade or ` + "`kollet gc`" + ` drops them. Layers
that arrived before a pull failed or was interrupted are not fetched again.` +
			exitHelp(map[int]string{exitFailed: "failed; images that had arrived are kept"}, exitDone, exitFailed, exitInput, exitLocked),
		Example: `  kollet pull
  kollet pull --tag 26.2.2-1`,
		Args: cobra.NoArgs,
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			pulled, err := n.Pull(ctx, to.options())
			if err != nil && len(pulled.Images) == 0 {
				return nil, err
			}
			return view.Pulled(pulled), err
		}),
	}
	to.add(cmd)
	return cmd
}
