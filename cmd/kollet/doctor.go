package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the host for conditions that make upgrades fail",
		Long: `Doctor checks the engine, cgroups, capabilities, mounts, disk space, kernel modules,
KVM, clock, cloud-init, the host's own libvirtd, the last journal and the node file;
and what an upgrade checks first: the services that run, what they require, and Nova
and Neutron if there are credentials. It suggests a fix for each finding. A problem
would make an upgrade fail or harm guests; a warning should be fixed. It changes
nothing.` + exitHelp(map[int]string{
			exitDone:   "no problems; there may be warnings",
			exitFailed: "there are problems",
		}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet doctor`,
		Args:    takes(0, 0),
		RunE: a.diagnosing(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			checks := n.Doctor(ctx)
			if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Level == doctor.Bad }) {
				return view.Checks(checks), statusError(exitFailed)
			}
			return view.Checks(checks), nil
		}),
	}
}
