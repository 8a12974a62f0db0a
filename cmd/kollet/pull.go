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
		Short: "Prefetch the images of the next upgrade",
		Long: `Pull reads the node file as ` + "`kollet upgrade`" + ` does and reports the same problems.
It fetches the images that an upgrade needs and that are not on this machine, so
that a maintenance window does not depend on the network. It changes nothing else:
running services and an interrupted upgrade are left alone.

The prefetched images are kept until an upgrade uses them; then its generation
keeps them. If another pull replaces them, the next upgrade or ` + "`kollet gc`" + ` removes
them. After a pull has failed or was interrupted, the next one does not fetch
complete layers again.` +
			exitHelp(map[int]string{exitFailed: "failed; images that were fetched are kept"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet pull
  kollet pull --tag 26.2.2-1`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			pulled, err := n.Pull(ctx, to.options())
			if err != nil && len(pulled.Images) == 0 {
				return nil, err
			}
			return view.Pulled(pulled), err
		}),
	}
	to.add(cmd)
	to.addDrops(cmd)
	return cmd
}
