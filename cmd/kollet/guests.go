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
		Short: "Show the guests, and what they hang on",
		Long: `Guests lists the QEMU processes that the node's libvirt started: which service of
which generation started each (its container and image are kept until the guest
is gone), and what would happen to it if somebody stopped that container at the
engine. kollet itself moves guests out of a container before it stops it. The
command changes nothing.` + exitHelp(map[int]string{exitFailed: "failed"}, exitDone, exitFailed, exitInput),
		Example: `  kollet guests
  kollet guests --output json`,
		Args: cobra.NoArgs,
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			guests, err := n.Guests(ctx)
			if err != nil {
				return nil, err
			}
			return view.Guests(guests), nil
		}),
	}
}
