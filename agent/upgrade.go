package agent

import (
	"context"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/agent/upgrade"
)

// Upgrade takes the node to what its node file says now.
func (a *Agent) Upgrade(ctx context.Context, opts target.Options, run upgrade.Options) (upgrade.Result, error) {
	a.warnOfFile()
	resolve := func() (*target.Target, error) {
		if err := a.refuseAdopted(ctx); err != nil {
			return nil, err
		}
		return target.Read(a.node, opts, "upgrade")
	}
	return upgrade.Run(ctx, a.node, resolve, run)
}

// warnOfFile warns of a node file that others can write.
func (a *Agent) warnOfFile() {
	if err := a.node.OthersWriteFile(); err != nil {
		a.node.Note("", "warning: %v", err)
	}
}

// Rollback takes the node to an earlier generation, images and configuration
// together; 0 means the one before the current. It is an upgrade like any
// other, to a new generation that equals the earlier one.
func (a *Agent) Rollback(ctx context.Context, number int, run upgrade.Options) (upgrade.Result, error) {
	if number == 0 { // a playbook for the whole fleet asks for that
		if err := a.refuseAdopted(ctx); err != nil {
			return upgrade.Result{}, err
		}
	}
	return upgrade.Run(ctx, a.node, func() (*target.Target, error) { return target.Recall(a.node, number) }, run)
}

// Recover brings an interrupted upgrade to one of its two ends. If there is one,
// it waits this long for the engine.
func (a *Agent) Recover(ctx context.Context, wait time.Duration) (upgrade.Recovery, error) {
	return upgrade.Recover(ctx, a.node, wait)
}

// Planned is what an upgrade would change, and what one that is under way does meanwhile.
type Planned struct {
	plan.Plan
	node.Underway
}

// Plan says what an upgrade would change, and changes nothing.
func (a *Agent) Plan(ctx context.Context, opts target.Options) (Planned, error) {
	a.warnOfFile()
	t, err := target.Read(a.node, opts, "upgrade")
	if err != nil {
		return Planned{}, err
	}
	planned := Planned{Underway: a.node.Underway()}
	current, err := a.node.Current()
	if err != nil {
		return Planned{}, err
	}
	if err := a.refuseAdopted(ctx); err != nil {
		a.node.Note("", "%v", err)
	}
	planned.Plan, _, err = plan.Make(ctx, a.node, t, current)
	return planned, err
}
