package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/configs/report"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "kollet",
		Short: "Node agent of containerised OpenStack compute nodes",
		Long: `kollet runs the services that a compute node's node file describes: it renders the
configuration, starts the containers, and upgrades them so that the whole node is
either on the new generation or back on the old one. Running guests are not
affected. kollet is not a daemon: it does not run between commands, except for the
log writers of containers on containerd.` + exitHelp(nil, exitDone, exitFailed, exitInput, exitChanges, exitOperator, exitLocked, exitDeferred),
		Args: func(root *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return unknown(root, args[0])
		},
		RunE:             func(root *cobra.Command, _ []string) error { return root.Help() },
		SilenceErrors:    true,
		SilenceUsage:     true,
		PersistentPreRun: func(*cobra.Command, []string) { a.started = true },
	}
	a.flags.add(root.PersistentFlags())
	complete(root, "output", view.Formats)
	root.AddCommand(
		a.bootstrap(), a.adopt(), a.plan(), a.pull(), a.upgrade(), a.rollback(), a.recover(),
		a.status(), a.verify(), a.history(), a.guests(), a.doctor(),
		a.render(), a.userdata(), a.seed(), a.gc(), a.logs(), a.exec(), a.version(),
		a.nodeFileTopic(), a.exitCodesTopic(),
	)
	root.SetHelpCommand(helpCommand(root))
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultCompletionCmd()
	if shells, _, err := root.Find([]string{"completion"}); err == nil {
		// By itself it takes a misspelled shell for a request for help, and succeeds.
		shells.Args, shells.DisableFlagsInUseLine = takes(0, 0), true
		shells.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// unknown returns the error for a command that does not exist.
func unknown(parent *cobra.Command, name string) error {
	var names []string
	for _, c := range parent.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
	}
	return fmt.Errorf("no command or help topic %q%s", name, report.DidYouMean(name, names))
}
