package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// adoptFlags are the flags of adopt.
type adoptFlags struct {
	adopt.Options
	run         upgrade.Options
	plan, write bool
}

func (a *app) adopt() *cobra.Command {
	var opts adoptFlags
	cmd := &cobra.Command{
		Use:   "adopt [--plan]",
		Short: "Take a node over from kolla-ansible",
		Long: `Adopt takes over a node that kolla-ansible runs: services with the same images,
configuration and volumes replace its containers, as in an upgrade, and guests keep
running. If that fails, kolla-ansible's containers run again. They stay on the node,
stopped, as generation 0: ` + "`kollet rollback 0`" + ` starts them again as they were.

It needs a node file that has their services. If there is none, it writes the one that
--plan prints. Comments in it say what cannot be taken over, what is left to kolla-ansible,
and what will differ. If anything cannot be taken over, nothing is touched. --force works as
in ` + "`kollet upgrade`" + `.` + gapHelp +
			exitHelp(map[int]string{exitFailed: "failed, or something cannot be taken over; the node is in its previous state"}, exitDone, exitFailed, exitInput, exitOperator, exitLocked, exitDeferred),
		Example: `  kollet adopt --plan
  kollet adopt --plan --write --exclude ceilometer_compute
  kollet adopt --exclude ceilometer_compute`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case opts.write && !opts.plan:
				return node.BadInput{Err: errors.New("--write belongs to --plan: `kollet adopt --plan --write` writes the node file, `kollet adopt` takes the node over")}
			case opts.plan && opts.run.Force:
				return node.BadInput{Err: errors.New("--plan changes nothing, so there is nothing to --force")}
			case opts.plan:
				return a.readOnly(opts.propose)(cmd, args)
			}
			return a.mutating(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
				unit, err := a.unit(n)
				if err != nil {
					return nil, err
				}
				begun := a.now()
				result, err := n.Adopt(ctx, opts.Options, unit, opts.run)
				return a.upgradeView(result, begun), err
			})(cmd, args)
		},
	}
	opts.add(cmd)
	return cmd
}

func (o *adoptFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.plan, "plan", false, "print the node file, and change nothing")
	f.BoolVar(&o.write, "write", false, "with --plan: also write the node file, unless there is one")
	f.StringArrayVar(&o.Include, "include", nil, "take over a `CONTAINER` that would be left to kolla-ansible; can be repeated")
	f.StringArrayVar(&o.Exclude, "exclude", nil, "leave a `CONTAINER` to kolla-ansible; can be repeated")
	forceFlag(cmd, &o.run)
}

// propose prints the proposed node file.
func (o *adoptFlags) propose(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
	proposal, err := n.ProposeAdoption(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	if o.write {
		err = n.WriteProposed(proposal)
	}
	if err == nil && len(proposal.Blocked) > 0 {
		err = statusError(exitFailed)
	}
	return view.Adoption(proposal), err
}
