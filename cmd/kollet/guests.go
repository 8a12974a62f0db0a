package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) guests() *cobra.Command {
	return &cobra.Command{
		Use:   "guests",
		Short: "List guests and the containers they depend on",
		Long: `Guests lists the QEMU processes that this node's libvirt started. For each it shows
the service and generation that started it, whose container and image are kept
until the guest has ended, the QEMU version that the guest runs on, the version that
it would run on after a hard reboot or a migration to a node like this one, and
whether the guest would survive if that container were stopped with the engine's own
tools. kollet moves guests, and what serves them, out of a container before it stops it.
Processes that serve guests are listed below them, and so are those that would end with
libvirt. The command changes nothing.` + exitHelp(map[int]string{exitFailed: "failed"}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet guests
  kollet guests --output json`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			guests, err := n.Guests(ctx)
			if err != nil {
				return nil, err
			}
			return view.Guests(guests), nil
		}),
	}
}
