package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) bootstrap() *cobra.Command {
	var to aim
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Take the node from nothing to a verified first generation",
		Long: `Bootstrap is for a node's first boot. It pulls the images, renders the
configuration, starts every service that the node file names, waits until each
is healthy, and records all of that as generation 1. If that fails, it removes
what it had started; images that were pulled and named volumes stay.

It may be run again: on a node that has a generation it does what ` + "`kollet upgrade`" + `
does, which is nothing when the node file has not changed.` +
			exits(map[int]string{exitFailed: "failed; what was started is removed again"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked),
		Example: `  kollet bootstrap
  kollet bootstrap --pull never`,
		Args: cobra.NoArgs,
		RunE: a.changing(func(ctx context.Context, node *agent.Agent, _ []string) (view.View, error) {
			begun := a.now()
			result, err := node.Bootstrap(ctx, to.options())
			return a.ended(result, begun), err
		}),
	}
	to.add(cmd)
	return cmd
}
