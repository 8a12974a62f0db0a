package main

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// version and commit are set by -ldflags "-X main.version=… -X main.commit=…",
// from the file VERSION and from git. Where they are not, the build information
// is used.
var version, commit string

func thisVersion() view.Version {
	v := view.Version{
		Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
		Formats: view.FileFormats{NodeFile: nodefile.Format, Journal: journal.Format, Generation: generation.Format},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = cmp.Or(v.Commit, s.Value[:min(12, len(s.Value))])
			}
		}
	}
	v.Version = cmp.Or(v.Version, "(devel)")
	return v
}

func (a *app) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show kollet's version and the formats that it reads",
		Long: `Version shows kollet's version, the commit and the Go version that it was built
from, and the formats that it reads. Journals of upgrades and records of generations in
another format are refused, and so are node files with unknown keys.` + exitHelp(map[int]string{exitDone: "success"}, exitDone),
		Example: `  kollet version
  kollet version --output json`,
		Args: takes(0, 0),
		RunE: func(*cobra.Command, []string) error { return a.show(thisVersion(), nil) },
	}
}
