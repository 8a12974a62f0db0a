package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The help of a flag has a placeholder that says of which kind its value is, such as DIR or
// a|b, and names no flag that its command does not have.
func TestFlagsHelp(t *testing.T) {
	kind := regexp.MustCompile(`^$|[A-Z]|\|`)
	flagName := regexp.MustCompile(`--[a-z-]+`)
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		check := func(f *pflag.Flag) {
			placeholder, usage := pflag.UnquoteUsage(f)
			if !kind.MatchString(placeholder) {
				t.Errorf("%s --%s: the placeholder is %q", cmd.CommandPath(), f.Name, placeholder)
			}
			for _, other := range flagName.FindAllString(usage, -1) {
				named := strings.TrimPrefix(other, "--")
				if cmd.Flag(named) == nil && !strings.Contains(usage, "an upgrade is run with "+other) {
					t.Errorf("%s --%s: the command has no flag %s", cmd.CommandPath(), f.Name, other)
				}
			}
		}
		cmd.LocalFlags().VisitAll(check)
		cmd.InheritedFlags().VisitAll(check)
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(new(app).root())
}
