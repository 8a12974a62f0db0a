package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// This file is a node's first boot: bootstrap, and its continuation after a reboot.
// cloud-init starts a bootstrap only once, so kollet records that one has begun.

// BootstrapOptions is the input of a bootstrap.
type BootstrapOptions struct {
	target.Options
	Unit *firstboot.Unit // to install, without what the node file says; nil: none
}

// Bootstrap takes a node from nothing to a verified first generation, or to
// what its node file says if it has one already. firstboot.FinishedPath records
// how it ended.
func (a *Agent) Bootstrap(ctx context.Context, p BootstrapOptions) (upgrade.Result, error) {
	unlock, err := upgrade.Lock(a.node)
	if err != nil {
		return upgrade.Result{}, err
	}
	defer unlock()
	current, err := a.node.Current()
	if err != nil {
		return upgrade.Result{}, err
	}
	if _, err := a.node.Interrupted(); err != nil {
		return upgrade.Result{}, err
	}
	if err := a.refuseAdopted(ctx); err != nil {
		return upgrade.Result{}, err
	}
	a.warnOfFile()
	return a.runBootstrap(ctx, p, firstboot.Begun{
		Time: a.node.Host.Now().UTC(), Generation: current.Number,
		Images: p.Images, Tag: p.Tag, Pull: p.Pull, Archives: p.Archives, Wait: p.Wait,
	})
}

// Resume continues a bootstrap that was interrupted. On a node that has a
// generation it does not begin a new one: the node file may have changed since.
// It reports whether there was one to continue.
func (a *Agent) Resume(ctx context.Context, unit *firstboot.Unit) (upgrade.Result, bool, error) {
	if begun, err := firstboot.Interrupted(a.node.Root); begun == nil || err != nil {
		return upgrade.Result{}, false, err
	}
	unlock, err := upgrade.Lock(a.node)
	if err != nil {
		return upgrade.Result{}, false, err
	}
	defer unlock()
	begun, err := firstboot.Interrupted(a.node.Root) // another kollet process may have finished it
	if begun == nil || err != nil {
		return upgrade.Result{}, false, err
	}
	a.node.Note("", "the bootstrap that began at %s was interrupted; continuing it", begun.Time.Format(time.RFC3339))
	info, err := upgrade.AwaitEngine(ctx, a.node, begun.Wait)
	if err != nil {
		return upgrade.Result{}, true, err // the mark stays: the next boot tries again
	}
	recovery, err := upgrade.RecoverLocked(ctx, a.node)
	if err != nil {
		return upgrade.Result{}, true, err
	}
	if recovery.Current > 0 {
		r, err := interruptedResult(*begun, recovery.Current)
		return r, true, a.finish(*begun, info, r, err)
	}
	r, err := a.runBootstrap(ctx, BootstrapOptions{
		Options: target.Options{Images: begun.Images, Tag: begun.Tag, Pull: begun.Pull, Archives: begun.Archives, Wait: begun.Wait},
		Unit:    unit,
	}, *begun)
	return r, true, err
}

// interruptedResult is the result of an interrupted bootstrap on a node that has a
// generation after its recovery.
func interruptedResult(begun firstboot.Begun, current int) (upgrade.Result, error) {
	r := upgrade.Result{Outcome: journal.Committed, From: begun.Generation, To: current, Plan: plan.Plan{Changes: []plan.Change{}, Drift: []plan.Drift{}}}
	if current == begun.Generation {
		r.Outcome = journal.RolledBack
		return r, fmt.Errorf("the bootstrap was interrupted, and the node is on generation %d as before; run `kollet bootstrap` to try again", current)
	}
	return r, nil
}

// runBootstrap is a bootstrap between its mark and its record. The lock is held.
func (a *Agent) runBootstrap(ctx context.Context, p BootstrapOptions, begun firstboot.Begun) (upgrade.Result, error) {
	resolve := func() (*target.Target, error) { return target.Read(a.node, p.Options, "bootstrap") }
	t, err := resolve()
	if err != nil { // the next boot would only repeat it
		return upgrade.Result{}, a.finish(begun, containers.Info{}, upgrade.Result{}, err)
	}
	begun.Kollet = a.node.Version
	if err := firstboot.Begin(a.node.Root, begun); err != nil { // no record either: the disk may be full
		return upgrade.Result{}, fmt.Errorf("nothing was touched: %w", remedied(err))
	}
	a.installUnit(ctx, p.Unit, t.Engine)
	var r upgrade.Result
	info, err := upgrade.AwaitEngine(ctx, a.node, p.Wait)
	if err == nil {
		r, err = upgrade.RunLocked(ctx, a.node.Patient(p.Wait), t, resolve, upgrade.Options{})
	}
	if err != nil && ctx.Err() != nil {
		// The mark stays: kollet was told to stop, as by a shutdown, and did not fail.
		return r, fmt.Errorf("%w\nthe next boot continues it, or run `kollet bootstrap`", err)
	}
	return r, a.finish(begun, info, r, err)
}

func remedied(err error) error {
	if remedy := failure.Remedy(err); remedy != "" {
		return fmt.Errorf("%w; %s, and run `kollet bootstrap`", err, remedy)
	}
	return err
}

// finish records how a bootstrap ended, and returns its error.
func (a *Agent) finish(begun firstboot.Begun, info containers.Info, r upgrade.Result, failed error) error {
	f := firstboot.Finished{Begun: begun.Time, Time: a.node.Host.Now().UTC(), OK: failed == nil, Outcome: cmp.Or(string(r.Outcome), firstboot.Failed), Kollet: a.node.Version}
	current, err := a.node.Current()
	if err == nil {
		f.Generation, f.Engine, f.Images = current.Number, current.Engine, imagesOf(current)
	}
	if failed != nil {
		failed = target.RedactorOf(a.node).Error(failed)
		f.Error = failed.Error()
	}
	if info.Name != "" {
		f.Engine = info.Name + " " + info.Version
	}
	return errors.Join(failed, firstboot.End(a.node.Root, f))
}

func imagesOf(g generation.Generation) map[string]string {
	images := map[string]string{}
	for _, s := range g.Services {
		images[s.Name] = s.Ref
		if s.Image.Digest == "" {
			images[s.Name] += " (" + s.Image.ID + ")"
		} else {
			images[s.Name] = s.Image.Digest
		}
	}
	return images
}

// installUnit makes systemd recover at each boot. A node without it works, but has
// to be recovered by other means.
func (a *Agent) installUnit(ctx context.Context, unit *firstboot.Unit, engine string) {
	if unit == nil {
		return
	}
	if !firstboot.Booted(a.node.Root) {
		a.node.Note("", "systemd is not running: nothing will run `kollet recover` at boot; see docs/recovery.md")
		return
	}
	u := *unit
	u.Engine, u.State = engine, a.node.State()
	changed, err := u.Install(ctx, a.node.Root)
	switch {
	case err != nil:
		a.node.Note("", "%v; until this is fixed, run `kollet recover` after a power loss", err)
	case changed:
		a.node.Note("", "installed %s, which runs `kollet recover` at each boot", firstboot.UnitName)
	}
}
