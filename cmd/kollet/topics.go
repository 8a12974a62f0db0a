package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/cmd/kollet/reference"
)

// nodeFileTopic is a help topic; its text is generated when it is shown.
func (a *app) nodeFileTopic() *cobra.Command {
	return topic("node-file", "Every key of the node file", reference.Text)
}

func (a *app) exitCodesTopic() *cobra.Command {
	return topic("exit-codes", "The meaning of exit statuses", func() string {
		var b strings.Builder
		for status, meaning := range exitMeanings {
			fmt.Fprintf(&b, "%d  %s\n", status, meaning)
		}
		b.WriteString("\nThe help of each command describes its statuses in more detail.\n`kollet exec` exits with the status of the command that it ran.\n")
		return b.String()
	})
}

func topic(name, short string, text func() string) *cobra.Command {
	cmd := &cobra.Command{Use: name, Short: short}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprint(cmd.OutOrStdout(), text())
	})
	return cmd
}

// helpCommand is cobra's, except that an unknown topic is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show what a command does",
		Long: `Help shows what a command does, its flags and its exit statuses, or one of the
topics that ` + "`kollet help`" + ` lists.` + exitHelp(map[int]string{exitDone: "success", exitInput: "no such command or topic"}, exitDone, exitInput),
		Example:           `  kollet help upgrade`,
		ValidArgsFunction: cobra.NoFileCompletions,
		Args: func(_ *cobra.Command, args []string) error {
			if _, rest, err := root.Find(args); err != nil || len(rest) > 0 {
				return unknown(root, strings.Join(rest, " "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, _, err := root.Find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}
