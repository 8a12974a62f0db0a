package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) adopt() *cobra.Command {
	var opts adopt.Options
	var plan, write bool
	cmd := &cobra.Command{
		Use:   "adopt --plan",
		Short: "Propose a node file for a node that kolla-ansible runs",
		Long: `Adopt reads the containers of kolla-ansible on this node, and their configuration
in /etc/kolla, and prints a node file with the same services. Comments in it say what
cannot be taken over, what is left to kolla-ansible, and what will differ. It changes
nothing; with --write, it writes the node file if there is none.

This version cannot take a node over while its guests run: it needs --plan, and an upgrade
or a bootstrap is refused as long as containers of kolla-ansible run the same services.` +
			exitHelp(map[int]string{exitDone: "success", exitFailed: "failed, or something cannot be taken over"}, exitDone, exitFailed, exitInput, exitOperator),
		Example: `  kollet adopt --plan
  kollet adopt --plan --write --exclude nova_ssh
  kollet adopt --plan --output json`,
		Args: takes(0, 0),
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, _ []string) (view.View, error) {
			if !plan {
				return nil, node.BadInput{Err: errors.New("a node cannot be taken over by this version; give --plan to see what a node file would be")}
			}
			proposal, err := n.ProposeAdoption(ctx, opts)
			if err != nil {
				return nil, err
			}
			if len(proposal.Blocked) > 0 {
				return view.Adoption(proposal), statusError(exitFailed)
			}
			if write {
				err = n.WriteProposed(proposal)
			}
			return view.Adoption(proposal), err
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&plan, "plan", false, "print the node file, and change nothing")
	f.BoolVar(&write, "write", false, "also write the node file, unless there is one")
	f.StringArrayVar(&opts.Include, "include", nil, "take over a `CONTAINER` that would be left to kolla-ansible; can be repeated")
	f.StringArrayVar(&opts.Exclude, "exclude", nil, "leave a `CONTAINER` to kolla-ansible; can be repeated")
	return cmd
}
