package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/gate/start"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// parallel bounds how many images are looked up or pulled, or containers staged,
// at once.
const parallel = 4

// stageTime bounds how long a container may take to its gate: it includes the
// warm-up, on a cold page cache.
const stageTime = 2 * time.Minute

// check makes sure, before anything costs time, that the upgrade can work.
func (t *transaction) check(ctx context.Context) error {
	if err := t.freeNames(ctx); err != nil {
		return err
	}
	return t.precheck(ctx)
}

// freeNames refuses to take the name of a container that somebody else runs on
// a node that kollet has not made yet. On one that it has, that is drift, and
// is repaired.
func (t *transaction) freeNames(ctx context.Context) error {
	for _, s := range t.target.services {
		if _, known := t.from.Service(s.Name); known {
			continue
		}
		other, err := t.Engine.Inspect(ctx, s.Name)
		if errors.Is(err, containers.ErrNotFound) || err == nil && other.Spec.Labels[node.LabelNode] == t.State() {
			continue
		}
		if err != nil {
			return fmt.Errorf("check the name of %s: %w", s.Name, err)
		}
		return fmt.Errorf("check: a container named %s exists that kollet did not make; stop and remove it first", s.Name)
	}
	return nil
}

// pullImages makes every image present, then decides what the next generation
// is: which image each tag means was not known before.
func (t *transaction) pullImages(ctx context.Context) error {
	if err := t.fetch(ctx, t.target); err != nil {
		return err
	}
	t.decide()
	return nil
}

// decide settles which services the next generation starts anew: those whose
// container would differ, and those that drifted.
func (t *transaction) decide() {
	t.to.Services = nil
	for _, s := range t.target.services {
		s.Origin = t.to.Number
		old, ok := t.from.Service(s.Name)
		drifted := slices.ContainsFunc(t.plan.Drift, func(d Drift) bool { return d.Service == s.Name })
		if ok && !drifted && old.Fingerprint() == s.Fingerprint() {
			s.Origin = old.Origin
		}
		t.to.Services = append(t.to.Services, s)
	}
}

// render writes the new generation's directory.
func (t *transaction) render(context.Context) error {
	program, err := start.Install(filepath.Join(t.State(), "bin"))
	if err != nil {
		return err
	}
	files := map[string][]generation.Rendered{}
	for _, s := range t.to.Services {
		description, err := node.KollaConfig(s)
		if err != nil {
			return fmt.Errorf("render %s: %w", s.Name, err)
		}
		files[s.Name] = append(slices.Clone(t.target.files[s.Name]), generation.Rendered{Name: node.ConfigName, Content: description})
	}
	return t.Store().Write(t.to, files, func(dir string) error {
		for _, s := range t.to.Services {
			if err := gate.Make(filepath.Join(dir, s.Name, "gate")); err != nil {
				return err
			}
		}
		return os.Link(program, filepath.Join(dir, node.StartName))
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
	return g.Wait()
}

func (t *transaction) stageOne(ctx context.Context, s generation.Service) error {
	id, err := t.Engine.Create(ctx, t.ContainerSpec(s, t.to.Number))
	if err != nil {
		return err
	}
	if err := t.Engine.Start(ctx, id); err != nil {
		return err
	}
	c, err := t.Engine.Inspect(ctx, id)
	if err != nil {
		return err
	}
	if c.ImageID != s.Image.ID {
		return fmt.Errorf("the engine made it from image %.19s, not %.19s", c.ImageID, s.Image.ID)
	}
	ctx, cancel := context.WithTimeout(ctx, stageTime)
	defer cancel()
	if err := gate.Wait(ctx, t.Store().Gate(t.to.Number, s.Name), c.PID); err != nil {
		return fmt.Errorf("%w%s", err, t.LogTail(context.WithoutCancel(ctx), id))
	}
	return nil
}

// unstage removes the containers of a generation that is given up. One whose
// guests run stays, stopped, until they are gone.
func (t *transaction) unstage(ctx context.Context) error {
	all, err := t.Engine.List(ctx, t.Labels("", 0))
	if err != nil {
		return err
	}
	pins, err := t.Pins()
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Spec.Labels[node.LabelGeneration] != fmt.Sprint(t.to.Number) {
			continue
		}
		if err := t.retire(ctx, c, pins); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the directory of a generation that is given up, unless a
// guest still runs from it.
func (t *transaction) discard(context.Context) error {
	pins, err := t.Pins()
	if err != nil || pins.Generation(t.to.Number) {
		return errors.Join(err, t.Store().Sweep())
	}
	return errors.Join(t.Store().Remove(t.to.Number), t.Store().Sweep())
}

// recall makes the target that an earlier generation was.
func (a *Agent) recall(number int) (*target, error) {
	if number == 0 {
		var err error
		if number, err = a.previous(); err != nil {
			return nil, node.BadInput{Err: err}
		}
	}
	g, err := a.Store().Load(number)
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	t := &target{reason: fmt.Sprintf("rollback to %d", number), engine: g.Engine, pull: "missing", files: map[string][]generation.Rendered{}}
	t.recalled, t.redactor = true, a.redactor()
	for _, s := range g.Services {
		for _, f := range s.Files {
			r := generation.Rendered{Name: f.Name}
			if r.Content, err = os.ReadFile(filepath.Join(a.Store().Config(number, s.Name), f.Name)); err != nil {
				return nil, fmt.Errorf("read generation %d: %w", number, err)
			}
			if generation.Sum(r.Content) != f.SHA256 {
				return nil, node.BadInput{Err: fmt.Errorf("generation %d cannot be gone back to: %s of %s was edited by hand", number, f.Name, s.Name)}
			}
			if r.Public, err = os.ReadFile(filepath.Join(a.Store().Public(number, s.Name), f.Name)); err != nil {
				return nil, fmt.Errorf("read generation %d: %w", number, err)
			}
			t.files[s.Name] = append(t.files[s.Name], r)
		}
		t.services = append(t.services, s)
	}
	return t, nil
}
