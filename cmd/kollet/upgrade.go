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
	var run upgrade.Options
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade the node to what its node file describes",
		Long: `Upgrade pulls the images and renders the configuration that the node file asks
for, and stages the containers of all services that change while the old ones
still run. Up to this point a failure changes nothing that runs. It then replaces
one service after the other, and verifies that all are healthy and that every
guest still runs. If anything fails, it restores the old containers, images and
configuration. An interrupt (SIGINT, SIGTERM, SIGQUIT) does the same; a lost terminal
does not stop an upgrade, and it cannot be suspended.

An image or a tag that --image or --tag gives instead of the node file's is a
hotfix. The node keeps it, also in upgrades without these flags, until the node
file says the same, or --drop-image or --drop-tag takes it back.

Services that do not change keep running, unless they drifted from their
generation (see ` + "`kollet verify`" + `); then they are replaced. Named volumes are kept.
If there is nothing to do, it ends immediately.

The prechecks refuse an upgrade that would fail or harm guests. With --force, what
they found is printed as warnings and recorded in the history, and the upgrade
continues.` + gapHelp + exitHelp(nil, exitDone, exitFailed, exitInput, exitOperator, exitLocked, exitDeferred),
		Example: `  kollet upgrade
  kollet upgrade --tag 26.2.2
  kollet upgrade --image nova-compute=registry:5000/kolla/nova-compute:hotfix
  kollet upgrade --drop-image nova-compute`,
		Args: takes(0, 0),
		RunE: a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			begun := a.now()
			result, err := n.Upgrade(ctx, to.options(), run)
			return a.upgradeView(result, begun), err
		}),
	}
	to.add(cmd)
	to.addDrops(cmd)
	forceFlag(cmd, &run)
	return cmd
}

// forceFlag adds --force.
func forceFlag(cmd *cobra.Command, run *upgrade.Options) {
	cmd.Flags().BoolVar(&run.Force, "force", false, "continue although a precheck fails, with a warning")
}

// upgradeView returns the view of an upgrade that began at begun, or nil if it
// was not started.
func (a *app) upgradeView(result upgrade.Result, begun time.Time) view.View {
	if result.Outcome == "" {
		return nil
	}
	return view.Upgrade{Result: result, Seconds: a.now().Sub(begun).Round(time.Millisecond).Seconds()}
}
