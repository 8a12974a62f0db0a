// Package doctor looks for what would make an upgrade fail, or harm guests,
// before one is tried.
package doctor

import (
	"context"
	"errors"
	"fmt"

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
	Warning Verdict = "warning" // works, but worth mending
	Bad     Verdict = "problem" // an upgrade would fail, or harm guests
)

// Run looks for what makes upgrades fail before one is tried.
func Run(ctx context.Context, n *node.Node) []Check {
	engine, info := checkEngine(ctx, n)
	checks := []Check{engine, checkCgroups(), checkCapabilities(), CheckDisk(n.State())}
	if engine.Level != Bad {
		checks = append(checks, checkLiveRestore(info), CheckDisk(info.Root), checkHostLibvirt(ctx, n))
	}
	return append(checks, checkMachined(), checkModules(), checkKVM(), checkClock(), checkCloudInit(), checkJournal(n), checkNodeFile(n))
}

// Precheck runs the checks that an upgrade must not begin without.
func Precheck(ctx context.Context, n *node.Node, services []generation.Service) error {
	engine, info := checkEngine(ctx, n)
	checks := []Check{engine, CheckDisk(n.State())}
	if engine.Level != Bad {
		checks = append(checks, CheckDisk(info.Root), checkHostLibvirt(ctx, n))
	}
	checks = append(checks, checkShared(services)...)
	for _, c := range checks {
		if c.Level == Bad {
			return fmt.Errorf("check %s: %s; %s", c.Name, c.Text, c.Remedy)
		}
	}
	return nil
}

func checkJournal(n *node.Node) Check {
	interrupted, err := n.Interrupted()
	if err != nil {
		return Check{Name: "journal", Level: Bad, Text: err.Error()}
	}
	if interrupted {
		return Check{"journal", Bad, "an upgrade was interrupted", "kollet recover"}
	}
	return Check{Name: "journal", Level: Fine, Text: "no upgrade is open"}
}

func checkNodeFile(n *node.Node) Check {
	_, err := target.Read(n, target.Options{}, "check")
	var bad node.BadInput
	if errors.As(err, &bad) {
		return Check{"node file", Bad, err.Error(), "mend it; `kollet plan` reads it again"}
	}
	if err != nil {
		return Check{"node file", Bad, err.Error(), "make it readable"}
	}
	return Check{Name: "node file", Level: Fine, Text: n.NodeFilePath()}
}
