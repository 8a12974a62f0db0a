package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
	"github.com/kollet/kollet/containers"
)

func (a *app) exec() *cobra.Command {
	var run containers.Exec
	var env []string
	var input bool
	cmd := &cobra.Command{
		Use:                   "exec [flags] SERVICE -- COMMAND [ARG…]",
		DisableFlagsInUseLine: true,
		Short:                 "Run a command in a service's container",
		Long: `Exec runs a command in the service's container, by default as the service's user.
If kollet runs on a terminal, so does the command; otherwise it has no standard
input unless --stdin is given. --output is ignored.

Changes to files in the container are lost when the container is replaced, and
` + "`kollet verify`" + ` reports them as drift if kollet wrote the files.

Exit status: that of the command. If the command could not be run:
` + strings.TrimPrefix(exitHelp(map[int]string{exitFailed: "failed"}, exitFailed, exitInput, exitOperator), "\n\nExit status:\n"),
		Example: `  kollet exec nova-libvirt -- virsh list --all
  kollet exec --user root nova-compute -- bash`,
		Args:              commandArg,
		ValidArgsFunction: a.services,
		RunE: a.readOnly(func(ctx context.Context, n *agent.Agent, args []string) (view.View, error) {
			run.Argv, run.Stdout, run.Stderr = commandOf(args), a.out, a.err
			run.Env = map[string]string{}
			for _, e := range env {
				key, value, _ := strings.Cut(e, "=")
				run.Env[key] = value
			}
			if input {
				run.Stdin = a.in
			}
			restore, err := attach(ctx, &run, a.in, a.out)
			if err != nil {
				return nil, err
			}
			defer restore()
			status, err := n.Exec(ctx, args[0], run)
			if err != nil || status == 0 {
				return nil, err
			}
			return nil, statusError(status)
		}),
	}
	f := cmd.Flags()
	f.StringVarP(&run.User, "user", "u", "", "run as `USER` (default: the service's user)")
	f.StringArrayVarP(&env, "env", "e", nil, "set `KEY=VALUE` in the command's environment; can be repeated")
	f.BoolVarP(&input, "stdin", "i", false, "pass standard input to the command")
	f.SetInterspersed(false) // flags after SERVICE belong to the command
	return cmd
}

// commandArg accepts SERVICE COMMAND ARG…, with or without -- after SERVICE.
func commandArg(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(commandOf(args)) == 0 {
		return errors.New("expected SERVICE -- COMMAND, such as: kollet exec nova-libvirt -- virsh list")
	}
	return nil
}

func commandOf(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[1:]
}
