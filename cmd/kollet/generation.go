package main

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
)

// generationArg accepts an optional generation number, from the least one that makes sense.
func generationArg(least int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := takes(0, 1)(cmd, args); err != nil || len(args) == 0 {
			return err
		}
		if n, err := strconv.Atoi(args[0]); err != nil || n < least {
			return fmt.Errorf("expected a generation number, got %q; `kollet history` lists them", args[0])
		}
		return nil
	}
}

// generationOf returns the generation number, or 0 if none was given.
func generationOf(args []string) int {
	if len(args) == 0 {
		return 0
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		panic(err) // generationArg has checked it
	}
	return n
}

// services completes the name of a service.
func (a *app) services(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	n, err := a.offlineAgent(cmd)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names, _ := n.Services() // without names there is no completion
	return names, cobra.ShellCompDirectiveNoFileComp
}

// generations completes the numbers of generations.
func (a *app) generations(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	n, err := a.offlineAgent(cmd)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	history, err := n.History()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var numbers []string
	for _, e := range history {
		if e.Kept && !e.Current {
			numbers = append(numbers, cobra.CompletionWithDesc(strconv.Itoa(e.Generation), e.Reason))
		}
	}
	if slices.ContainsFunc(history, func(e agent.Entry) bool { return e.Reason == "adopt" }) {
		numbers = append(numbers, cobra.CompletionWithDesc("0", "kolla-ansible"))
	}
	return numbers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}
