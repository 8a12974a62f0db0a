package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) render() *cobra.Command {
	var to targetFlags
	var explain string
	cmd := &cobra.Command{
		Use:   "render DIR | --explain FILE",
		Short: "Write the config files of a generation to a directory, or explain one",
		Long: `Render writes the configuration that the node file describes into DIR: one
directory per service, with the files at their paths in the container. It prints
these paths. The files contain secrets and only their owner can read them; remove
them when you no longer need them. Existing files in DIR are overwritten. It needs
no engine and does not change the node.

With --explain it writes nothing. It prints, for each value of a config file, the file
and line that set it, and the values that this one replaced. Secrets are not shown. FILE is
a path in a container, or its last part.` + exitHelp(map[int]string{exitFailed: "failed; some files may have been written"}, exitDone, exitFailed, exitInput),
		Example: `  kollet render /root/rendered
  kollet render --root ./image --host cmp1 ./out
  kollet render --explain nova.conf`,
		Args: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("explain") {
				return takes(1, 1)(cmd, args)
			}
			return takes(0, 0)(cmd, args)
		},
		RunE: a.offline(func(_ context.Context, n *agent.Agent, args []string) (view.View, error) {
			if len(args) == 0 {
				files, err := n.Explain(to.options(), explain)
				if err != nil {
					return nil, err
				}
				return view.Explanations(files), nil
			}
			paths, err := n.Render(to.options(), args[0])
			if err != nil && len(paths) == 0 {
				return nil, err
			}
			return view.Files(paths), err
		}),
	}
	to.addImages(cmd, "", "") // nothing is pulled, nor kept
	cmd.Flags().StringVar(&explain, "explain", "", "say where each value of the config `FILE` comes from, instead of writing files")
	return cmd
}
