package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

func (a *app) render() *cobra.Command {
	var to targetFlags
	cmd := &cobra.Command{
		Use:   "render DIR",
		Short: "Write the config files of a generation to a directory",
		Long: `Render writes the configuration that the node file describes into DIR: one
directory per service, with the files at their paths in the container. It prints
these paths. The files contain secrets and only their owner can read them; remove
them when you no longer need them. Existing files in DIR are overwritten. It needs
no engine and does not change the node.` + exitHelp(map[int]string{exitFailed: "failed; some files may have been written"}, exitDone, exitFailed, exitInput),
		Example: `  kollet render /root/rendered
  kollet render --root ./image --host cmp1 ./out`,
		Args: takes(1, 1),
		RunE: a.offline(func(_ context.Context, n *agent.Agent, args []string) (view.View, error) {
			paths, err := n.Render(to.options(), args[0])
			if err != nil && len(paths) == 0 {
				return nil, err
			}
			return view.Files(paths), err
		}),
	}
	to.add(cmd)
	return cmd
}
