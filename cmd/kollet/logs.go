package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/containers"
)

func (a *app) logs() *cobra.Command {
	var opts containers.LogOptions
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "logs SERVICE",
		Short: "Show the logs of a service",
		Long: `Logs prints what the service wrote to standard output and standard error.
--output is ignored. It changes nothing.` + exitHelp(map[int]string{exitFailed: "failed"}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet logs --tail 20 --follow nova-compute
  kollet logs --since 10m nova-libvirt`,
		Args:              takes(1, 1),
		ValidArgsFunction: a.services,
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, args []string) (view.View, error) {
			if opts.Tail < 0 || since < 0 {
				return nil, usageError{errors.New("--tail and --since: expected no less than zero"), "logs"}
			}
			if since > 0 {
				opts.Since = a.now().Add(-since)
			}
			return nil, n.Logs(ctx, args[0], opts, a.out)
		}),
	}
	f := cmd.Flags()
	f.BoolVarP(&opts.Follow, "follow", "f", false, "keep printing until the service stops")
	f.IntVarP(&opts.Tail, "tail", "n", 0, "print only the last `N` lines (default all)")
	f.DurationVar(&since, "since", 0, "print only lines newer than `AGE`, such as 10m (default all)")
	f.BoolVarP(&opts.Timestamps, "timestamps", "t", false, "print the time before each line")
	return cmd
}
