// Package doctor checks whether an upgrade would fail, or harm guests.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
)

// Check is one finding of the doctor.
type Check struct {
	Name   string  `json:"name"`
	Level  Verdict `json:"level"`
	Text   string  `json:"text"`
	Remedy string  `json:"remedy,omitempty"`
}

// Verdict of a check.
type Verdict string

const (
	Fine    Verdict = "ok"
	Warning Verdict = "warning" // works, but should be fixed
	Bad     Verdict = "problem" // an upgrade would fail, or harm guests
)

// Run does all checks.
func Run(ctx context.Context, n *node.Node) []Check {
	engine, info := checkEngine(ctx, n)
	checks := []Check{engine, checkCgroups(n.Host), checkCapabilities(n.Host), CheckDisk(n.Host, n.State())}
	if engine.Level != Bad {
		checks = append(checks, checkLiveRestore(info), CheckDisk(n.Host, info.Root))
		if info.Name == "podman" {
			checks = append(checks, checkBoot(n.Host))
		}
	}
	nodeFile, services := checkNodeFile(n)
	checks = append(checks, checkMachined(n.Host), checkModules(n.Host, services), checkKVM(n.Host), checkClock(n.Host), checkCloudInit(n.Host), checkJournal(n), nodeFile)
	checks = append(checks, checkGeneration(n)...)
	checks = append(checks, checkAgents(services)...)
	checks = append(checks, checkShared(n.Host, services)...)
	checks = append(checks, checkOpenStack(ctx, n, services)...)
	if engine.Level != Bad {
		checks = append(checks, checkKolla(ctx, n, services)...)
		checks = append(checks, checkStartedAgain(ctx, n)...)
		if _, err := os.Lstat(n.NodeFilePath()); errors.Is(err, fs.ErrNotExist) {
			checks = append(checks, checkUnadopted(ctx, n)...)
		}
		checks = append(checks, checkHostDaemons(ctx, n, services)...)
		checks = append(checks, checkServices(ctx, n, services)...)
	}
	return checks
}

// Precheck does the checks without which an upgrade should not begin, and returns
// the problems.
func Precheck(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	engine, info := checkEngine(ctx, n)
	checks := []Check{engine, CheckDisk(n.Host, n.State())}
	if engine.Level != Bad {
		checks = append(checks, checkKolla(ctx, n, services)...) // says more than those of the host's daemons
		checks = append(checks, checkHostDaemons(ctx, n, services)...)
		checks = append(checks, CheckDisk(n.Host, info.Root))
	}
	checks = append(checks, checkShared(n.Host, services)...)
	return slices.DeleteFunc(checks, func(c Check) bool { return c.Level != Bad })
}

func checkJournal(n *node.Node) Check {
	switch u := n.Underway(); {
	case u.Problem != "":
		return Check{Name: "journal", Level: Bad, Text: u.Problem}
	case u.Running != "":
		return Check{Name: "journal", Level: Fine, Text: u.Running + " is running"}
	case u.Interrupted:
		return Check{"journal", Bad, u.Interruption(), "kollet recover"}
	}
	return Check{Name: "journal", Level: Fine, Text: "no upgrade is open"}
}

// checkNodeFile also returns the services of a node file without problems.
func checkNodeFile(n *node.Node) (Check, []generation.Service) {
	t, err := target.Read(n, target.Options{}, "check")
	if _, ok := errors.AsType[node.BadInput](err); ok {
		return Check{"node file", Bad, err.Error(), "fix it; `kollet plan` reads it again"}, nil
	}
	if err != nil {
		return Check{"node file", Bad, err.Error(), "make it readable"}, nil
	}
	if err := n.OthersWriteFile(); err != nil {
		return Check{Name: "node file", Level: Warning, Text: err.Error()}, t.Services // says what to do
	}
	return Check{Name: "node file", Level: Fine, Text: n.NodeFilePath()}, t.Services
}
