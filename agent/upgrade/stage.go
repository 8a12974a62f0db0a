package upgrade

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/doctor"
	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/fetch"
	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/gate/start"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/containers"
)

// parallel bounds how many containers are staged at once.
const parallel = 4

// stageTimeout bounds how long a container may take to reach its gate. That
// includes the warm-up, with a cold page cache.
const stageTimeout = 2 * time.Minute

// check makes sure that the upgrade can work before any step that takes time.
func (t *transaction) check(ctx context.Context) error {
	if err := t.freeNames(ctx); err != nil {
		return err
	}
	if err := t.freeKeptNames(ctx); err != nil {
		return err
	}
	all, err := t.node.Containers(ctx)
	if err != nil {
		return err
	}
	if err := t.checkHosts(all); err != nil {
		return err
	}
	if err := t.checkManual(ctx, all); err != nil {
		return err
	}
	if err := t.checkLost(all); err != nil {
		return err
	}
	if err := t.checkReturn(ctx); err != nil {
		return err
	}
	if err := t.refuseAll(doctor.Precheck(ctx, t.node, t.target.Services)); err != nil {
		return err
	}
	if err := t.checkServices(ctx); err != nil {
		return err
	}
	return t.openCloud(ctx)
}

// freeNames refuses a service whose name is taken by a container that kollet did
// not create. For a service that the current generation has, such a container is
// drift and is replaced; unless it is one of kolla-ansible, whose container has another name.
func (t *transaction) freeNames(ctx context.Context) error {
	for _, s := range t.target.Services {
		if old, known := t.from.Service(s.Name); known && old.Origin != 0 {
			continue
		}
		other, err := t.node.Engine.Inspect(ctx, s.Name)
		if errors.Is(err, containers.ErrNotFound) || err == nil && other.Spec.Labels[node.LabelNode] == t.node.State() {
			continue
		}
		if err != nil {
			return fmt.Errorf("check the name of %s: %w", s.Name, err)
		}
		return fmt.Errorf("check: a container named %s exists that kollet did not create; %s", s.Name, t.freesName(other))
	}
	return nil
}

// freesName says what to do about a container that has the name of a service.
func (t *transaction) freesName(other containers.Container) string {
	rename := fmt.Sprintf("rename it, as with `docker rename %s %s-kolla`, or remove it", other.Spec.Name, other.Spec.Name)
	switch {
	case !node.IsKolla(other):
		return "stop and remove it first"
	case len(t.from.Services) > 0 && !t.from.Adopted(): // it was left to kolla-ansible
		return fmt.Sprintf("if kolla-ansible is to run it no longer, stop it with %s, and %s", t.node.StopKolla(other), rename)
	case t.target.Reason == "adopt":
		return "kolla-ansible runs it: take it over, or remove the service from the node file"
	}
	return "kolla-ansible runs it: `kollet adopt` takes it over"
}

// freeKeptNames refuses a name that is taken and that a container of generation 0 gets after the
// commit, when there is no way back: in an adoption one with the name of its service, and in a return
// each gets its own. Something may still need the container that has it.
func (t *transaction) freeKeptNames(ctx context.Context) error {
	a, err := t.node.Store().Adopted()
	if err != nil {
		return err
	}
	for service, was := range a.Containers {
		own, err := t.node.Engine.Inspect(ctx, was.ID)
		if t.target.Returns && err == nil {
			err = t.freeOwnName(ctx, was)
			if err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, containers.ErrNotFound) || err == nil && own.Spec.Name != service {
			continue
		}
		kept := node.StagedName(service, 0)
		if err == nil {
			_, err = t.node.Engine.Inspect(ctx, kept)
		}
		if errors.Is(err, containers.ErrNotFound) {
			continue
		}
		if err != nil {
			return fmt.Errorf("check the name of %s: %w", service, err)
		}
		return fmt.Errorf("check: a container named %s exists, but kolla-ansible's container %s has to get that name; stop it if it runs, and remove it with `docker rm %s`", kept, service, kept)
	}
	return nil
}

func (t *transaction) freeOwnName(ctx context.Context, was generation.Container) error {
	other, err := t.node.Engine.Inspect(ctx, was.Name)
	if errors.Is(err, containers.ErrNotFound) || err == nil && (other.ID == was.ID || other.Spec.Labels[node.LabelNode] == t.node.State()) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("check the name of %s: %w", was.Name, err)
	}
	return fmt.Errorf("check: another container has the name %s, which that of generation 0 has to get; stop it if it runs, and remove it with `docker rm %s`", was.Name, was.Name)
}

// pull makes every image present, then selects what the next generation replaces:
// only now is it known which image each tag means.
func (t *transaction) pull(ctx context.Context) error {
	images, err := fetch.Images(ctx, t.node, t.target, t.images)
	t.images = images
	if err != nil {
		return err
	}
	t.selectReplacements()
	return nil
}

// selectReplacements gives a new container to the services whose container would
// differ, to those that drifted, and to those that are replaced with their
// dependencies. The others keep theirs.
func (t *transaction) selectReplacements() {
	t.to.Services = nil
	for _, s := range t.target.With(t.images) {
		old, ok := t.from.Service(s.Name)
		if t.target.Returns {
			s.Origin = 0
			t.to.Services = append(t.to.Services, s)
			continue
		}
		s.Origin = t.to.Number
		drifted := slices.ContainsFunc(t.plan.Drift, func(d plan.Drift) bool { return d.Service == s.Name && !d.KeepsContainer() })
		if ok && !drifted && old.Origin != 0 && old.Fingerprint() == s.As(old, t.target.Files[s.Name], t.target.Key).Fingerprint() && !t.replacesDependency(s) {
			s.Origin = old.Origin
		}
		t.to.Services = append(t.to.Services, s)
	}
}

// replacesDependency reports whether s has to be replaced with a service that it
// depends on. Those come first in the start order.
func (t *transaction) replacesDependency(s generation.Service) bool {
	return s.ReplaceWithDependencies && slices.ContainsFunc(s.DependsOn, func(dep string) bool {
		other, ok := t.to.Service(dep)
		return ok && other.Origin == t.to.Number
	})
}

// render writes the new generation's directory.
func (t *transaction) render(context.Context) error {
	files := map[string][]generation.Rendered{}
	for _, s := range t.to.Services {
		if s.Origin == 0 { // it has its configuration
			continue
		}
		description, err := node.KollaConfig(s)
		if err != nil {
			return fmt.Errorf("render %s: %w", s.Name, err)
		}
		files[s.Name] = append(slices.Clone(t.target.Files[s.Name]), generation.Rendered{Name: node.ConfigName, Content: description})
	}
	if err := t.node.KeepKey(); err != nil {
		return err
	}
	return t.node.Store().Write(t.to, files, func(dir string) error {
		for _, s := range t.to.Services {
			if err := gate.Make(filepath.Join(dir, s.Name, "gate")); err != nil {
				return err
			}
		}
		return start.Write(filepath.Join(dir, node.StartName)) // its own: a link would share damage with the others
	})
}

// stage brings the next generation's new containers to their gates, while the
// old ones serve.
func (t *transaction) stage(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for _, s := range t.to.Services {
		if s.Origin != t.to.Number {
			continue
		}
		g.Go(func() error {
			if err := t.stageOne(gctx, s); err != nil {
				return fmt.Errorf("stage %s: %w", s.Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	// Not later, where a slow disk would hold up the commit.
	if err := t.node.Sync(ctx); err != nil {
		return err
	}
	if err := t.warnOfOptions(ctx); err != nil {
		return err
	}
	return t.guestsFit(ctx)
}

func (t *transaction) stageOne(ctx context.Context, s generation.Service) error {
	id, err := t.node.Engine.Create(ctx, t.node.ContainerSpec(s, t.to.Number))
	if err != nil {
		return err
	}
	if err := t.node.Engine.Start(ctx, id); err != nil {
		return err
	}
	c, err := t.node.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	if c.ImageID != s.Image.ID {
		return fmt.Errorf("the engine created it from image %.19s, not %.19s", c.ImageID, s.Image.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, stageTimeout)
	defer cancel()
	first, _, err := t.node.Host.OpenContainer(c.PID, c.ID)
	if err != nil && !errors.Is(err, host.ErrExited) { // if it has ended, its gate directory may say why
		return err
	}
	defer first.Close()
	if err := t.inPlace(c, s); err != nil {
		return err
	}
	if err := gate.Wait(ctx, t.node.Store().Gate(t.to.Number, s.Name), first); err != nil {
		return fmt.Errorf("%w%s", durable.Explain(err), t.node.LogTail(context.WithoutCancel(ctx), id))
	}
	return nil
}

// inPlace refuses an image that redirects what kollet mounts into its container, with a link or
// a volume: guests are recognised by the gate directory at its own path. One that has exited may
// have said why.
func (t *transaction) inPlace(c containers.Container, s generation.Service) error {
	for _, m := range t.node.OwnMounts(s.Name, t.to.Number) {
		at, err := t.node.Host.MountedAt(c.PID, m.Target)
		if errors.Is(err, host.ErrExited) {
			return nil
		}
		if err != nil {
			return err
		}
		source, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return err
		}
		own, err := t.node.Host.OriginOf(source)
		if err != nil {
			return err
		}
		if at != own {
			return fmt.Errorf("image %s: what kollet mounts at %s is not there: a part of that path is a link, or a volume is mounted over it; use an image without such a path", s.Ref, m.Target)
		}
	}
	return nil
}

// unstage removes the containers of a generation that is given up. A container
// that guests run from is stopped and kept until they are gone.
func (t *transaction) unstage(ctx context.Context) error {
	all, err := t.node.Containers(ctx)
	if err != nil {
		return err
	}
	pins, err := t.node.Pins()
	if err != nil {
		return err
	}
	for _, c := range all {
		if !t.staged(c) {
			continue
		}
		if _, err := retire(ctx, t.node, c, madeFor(t.node, t.to, c), pins); err != nil {
			return err
		}
	}
	return nil
}

// staged reports whether the transaction has staged a container: until the commit such a container
// has the name that it was staged with. One that has another name is older, or its image has the
// label. Nothing is decided by when it was created, because clocks may be set.
func (t *transaction) staged(c containers.Container) bool {
	return node.GenerationOf(c) == t.to.Number && c.Spec.Name == node.StagedName(c.Spec.Labels[node.LabelService], t.to.Number)
}

// discard removes the directory of a generation that is given up, unless a
// guest still runs from it.
func (t *transaction) discard(ctx context.Context) error {
	pins, err := t.node.Pins()
	if err != nil {
		return err
	}
	if !pins.Generation(t.to.Number) {
		err = t.node.Store().Remove(ctx, t.to.Number)
	}
	if err = errors.Join(err, t.node.Store().Sweep(ctx)); err != nil {
		t.node.Note("", "kept files of generation %d: %v; `kollet gc` tries again", t.to.Number, err)
	}
	return nil
}
