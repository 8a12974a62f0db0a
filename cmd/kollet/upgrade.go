package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) upgrade() *cobra.Command {
	var to targetFlags
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Take the node to what its node file says now",
		Long: `Upgrade pulls the images and renders the configuration that the node file asks
for, and creates the containers of every service that changes while the old ones
still serve. Up to there a failure costs nothing. It then replaces one service
after the other, and verifies that all are healthy and every guest still runs.
If anything fails, the old containers, images and configuration are put back.
An interrupt (SIGINT, SIGTERM) does the same; a lost terminal does not stop it.

Services that do not change are not touched, unless they drifted from their
generation (see ` + "`kollet verify`" + `): then they are replaced. Named volumes are kept.
With nothing to do it ends at once.` + exitHelp(nil, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet upgrade
  kollet upgrade --tag 26.2.2
  kollet upgrade --image nova-compute=registry:5000/kolla/nova-compute:hotfix`,
		Args: cobra.NoArgs,
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			begun := a.now()
			result, err := n.Upgrade(ctx, to.options())
			return a.upgradeView(result, begun), err
		}),
	}
	to.add(cmd)
	return cmd
}

// upgradeView is the view of an upgrade that began then; none if it never began.
func (a *app) upgradeView(result upgrade.Result, begun time.Time) view.View {
	if result.Outcome == "" {
		return nil
	}
	return view.Upgrade{Result: result, Seconds: a.now().Sub(begun).Round(time.Millisecond).Seconds()}
}
