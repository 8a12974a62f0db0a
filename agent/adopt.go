package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/agent/upgrade"
)

// ProposeAdoption reads the containers of kolla-ansible on this node, and proposes a node file
// with their services; on a node that kollet runs, with what was left to kolla-ansible. It changes
// nothing.
func (a *Agent) ProposeAdoption(ctx context.Context, opts adopt.Options) (adopt.Proposal, error) {
	current, err := a.node.Current()
	if err != nil {
		return adopt.Proposal{}, err
	}
	proposal, err := adopt.Read(ctx, a.node, opts)
	if errors.Is(err, adopt.ErrNothing) {
		return proposal, cmp.Or(requireAdoptable(current), err)
	}
	return proposal, err
}

// WriteProposed writes a proposed node file, unless there is one. If the node cannot be taken over, it
// only says that nothing is written: the proposal says why.
func (a *Agent) WriteProposed(p adopt.Proposal) error {
	err := p.Write(a.node)
	switch {
	case len(p.Blocked) > 0:
		a.node.Note("", "%v", err)
		return nil
	case err == nil:
		a.node.Note("", "wrote %s", a.node.NodeFilePath())
	}
	return err
}

// BlockedError means that a node cannot be taken over.
type BlockedError struct{ adopt.Proposal }

func (e BlockedError) Error() string {
	errs := []error{errors.New("nothing was touched: the node cannot be taken over")}
	for _, f := range e.Blocked {
		errs = append(errs, errors.New(f.String()))
	}
	return errors.Join(errs...).Error()
}

// Adopt takes the node over from kolla-ansible. Its containers become generation 0, and the
// upgrade to the node file is one like any other. Without a node file, the proposed one is
// written.
func (a *Agent) Adopt(ctx context.Context, opts adopt.Options, unit *firstboot.Unit, run upgrade.Options) (upgrade.Result, error) {
	unlock, err := upgrade.Lock(a.node)
	if err != nil {
		return upgrade.Result{}, err
	}
	defer unlock()
	if _, err := upgrade.RecoverFirst(ctx, a.node); err != nil {
		return upgrade.Result{}, err
	}
	current, err := a.node.Current()
	if err != nil {
		return upgrade.Result{}, err
	}
	if err := requireAdoptable(current); err != nil {
		return upgrade.Result{}, err
	}
	proposal, err := adopt.Read(ctx, a.node, opts)
	if err != nil {
		return upgrade.Result{}, err
	}
	if len(proposal.Blocked) > 0 {
		return upgrade.Result{}, BlockedError{proposal}
	}
	for _, f := range proposal.Unwritten() {
		a.node.Note("", "warning: unless the node file takes care of it: %s", f)
	}
	if err := proposal.WriteMissing(a.node); err != nil {
		return upgrade.Result{}, err
	}
	t, err := target.Read(a.node, target.Options{}, "adopt")
	if err != nil {
		return upgrade.Result{}, err
	}
	if err := a.recordAdopted(ctx, proposal, t, current); err != nil {
		return upgrade.Result{}, err
	}
	a.installUnit(ctx, unit, t.Engine)
	resolve := func() (*target.Target, error) { return target.Read(a.node, target.Options{}, "adopt") }
	return upgrade.RunLocked(ctx, a.node, t, resolve, run)
}

// requireAdoptable refuses a node whose services kollet runs: their containers of generation 0 are
// stopped because of that, and must stay so.
func requireAdoptable(current generation.Generation) error {
	if len(current.Services) == 0 || current.Adopted() {
		return nil
	}
	return node.BadInput{Err: fmt.Errorf("kollet runs this node already: it is on generation %d; use `kollet upgrade`", current.Number)}
}

// refuseAdopted refuses to replace what kolla-ansible runs, before the node is taken over and after
// it was given back, unless that is asked for.
func (a *Agent) refuseAdopted(ctx context.Context) error {
	current, err := a.node.Current()
	if err != nil || !current.Adopted() {
		return err
	}
	for _, s := range current.Services {
		if c, err := a.node.Container(ctx, s.Name, 0); err == nil && !c.State.Stopped() {
			return node.BadInput{Err: fmt.Errorf("kolla-ansible runs this node, with %s among others; `kollet adopt` takes it over", c.Spec.Name)}
		}
	}
	return nil
}

// recordAdopted records generation 0: what runs of the services that the node file has.
func (a *Agent) recordAdopted(ctx context.Context, p adopt.Proposal, t *target.Target, current generation.Generation) error {
	images, err := t.FindImages(ctx, a.node, current)
	if err != nil {
		return err
	}
	info, err := a.node.Engine.Info(ctx)
	if err != nil {
		return err
	}
	record := generation.Adopted{
		Directory:  filepath.Join(info.Root, "containers"), // moby: daemon/daemon.go, NewDaemon
		Generation: generation.Generation{Created: a.node.Host.Now().UTC(), Reason: "kolla-ansible", Version: a.node.Version, Engine: t.Engine},
		Containers: map[string]generation.Container{},
	}
	for _, s := range t.With(images) {
		at := slices.IndexFunc(p.Services, func(p adopt.Service) bool { return p.Name == s.Name })
		if at < 0 {
			continue
		}
		c, err := a.node.Engine.Inspect(ctx, p.Services[at].ID)
		if err != nil {
			return err
		}
		was := generation.Container{ID: c.ID, Name: c.Spec.Name, Restart: c.Spec.Restart}
		service, err := adopt.Running(ctx, a.node.Engine, c, s)
		if err != nil {
			return err
		}
		if c.ImageID != s.Image.ID {
			a.node.Note(s.Name, "warning: the node file's image is %s, that of kolla-ansible's container %s is %s", s.Ref, c.Spec.Name, c.Spec.Image)
		}
		record.Containers[s.Name] = was
		record.Generation.Services = append(record.Generation.Services, service)
	}
	var left []string
	for _, s := range p.Services {
		if _, taken := record.Containers[s.Name]; !taken {
			left = append(left, s.Container)
		}
	}
	if len(left) > 0 {
		return node.BadInput{Err: fmt.Errorf("the node file %s has no services for %q; add them (`kollet adopt --plan` prints them), or leave the containers with --exclude", a.node.NodeFilePath(), left)}
	}
	return a.node.Store().SetAdopted(record)
}

// ReturnToKolla gives the node back to kolla-ansible: its containers run again, as they were. It
// is an upgrade like any other, to a new generation that equals generation 0.
func (a *Agent) ReturnToKolla(ctx context.Context, run upgrade.Options) (upgrade.Result, error) {
	return upgrade.Run(ctx, a.node, func() (*target.Target, error) { return target.Adopted(a.node) }, run)
}
