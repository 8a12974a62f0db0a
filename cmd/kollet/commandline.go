package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kollet/kollet/configs/report"
)

// usageError is an invalid command line.
type usageError struct {
	error
	command string // whose help describes it; empty: that of kollet
}

func (e usageError) Error() string {
	return e.error.Error() + "; see `" + strings.TrimSpace("kollet help "+e.command) + "`"
}

func (e usageError) Unwrap() error { return e.error }

// describedBy returns the command whose help tells how to correct a command line.
func describedBy(cmd *cobra.Command) string {
	if cmd.Name() == "help" {
		return ""
	}
	_, below, _ := strings.Cut(cmd.CommandPath(), " ")
	return below
}

// takes checks that a command has least to most arguments. Their names follow the
// command's own in its usage.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			_, names, _ := strings.Cut(cmd.Use, " ")
			return fmt.Errorf("expected %s", names)
		case len(args) > most && cmd.HasSubCommands():
			return unknown(cmd, args[most])
		case len(args) > most:
			return fmt.Errorf("unexpected argument %q", args[most])
		}
		return nil
	}
}

// flagError says what is wrong with a flag, where pflag only has the error of Go's
// parser, or knows no remedy.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var name *pflag.NotExistError
	switch {
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "duration":
		return fmt.Errorf("--%s: expected a duration with its unit, such as 90s, got %q", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &value) && value.GetFlag().Value.Type() == "int":
		return fmt.Errorf("--%s: expected a whole number, got %q", value.GetFlag().Name, value.GetValue())
	case errors.As(err, &name) && name.GetSpecifiedShortnames() == "":
		if at, _, none := cmd.Find([]string{name.GetSpecifiedName()}); none == nil && at != cmd { // --version
			return fmt.Errorf("%w; did you mean `%s`?", err, at.CommandPath())
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("%w%s", err, report.DidYouMean("--"+name.GetSpecifiedName(), names))
	}
	return err
}
