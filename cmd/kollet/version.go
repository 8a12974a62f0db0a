package main

import (
	"cmp"
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// version is set by -ldflags "-X main.version=…"; else the build information
// counts.
var version string

func thisVersion() view.Version {
	v := view.Version{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value[:min(12, len(s.Value))]
			}
		}
	}
	v.Version = cmp.Or(v.Version, "(devel)")
	return v
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Show which kollet this is",
		Long:    `Version shows this kollet's version, and what it was built from and with.` + exits(map[int]string{exitDone: "done"}, exitDone),
		Example: `  kollet version --output json`,
		Args:    cobra.NoArgs,
		RunE: a.offline(func(context.Context, *agent.Agent, []string) (view.View, error) {
			return thisVersion(), nil
		}),
	}
}
