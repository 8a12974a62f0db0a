package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/gate/start"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/configs/kolla"
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
		if errors.Is(err, containers.ErrNotFound) || err == nil && other.Spec.Labels[LabelNode] == t.state() {
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

// startName is kollet-start in a generation's directory: each generation keeps
// the one that its containers start with.
const startName = "kollet-start"

// render writes the new generation's directory.
func (t *transaction) render(context.Context) error {
	program, err := start.Install(filepath.Join(t.state(), "bin"))
	if err != nil {
		return err
	}
	files := map[string][]generation.Rendered{}
	for _, s := range t.to.Services {
		description, err := describe(s)
		if err != nil {
			return fmt.Errorf("render %s: %w", s.Name, err)
		}
		files[s.Name] = append(slices.Clone(t.target.files[s.Name]), generation.Rendered{Name: descriptionName, Content: description})
	}
	return t.store().Write(t.to, files, func(dir string) error {
		for _, s := range t.to.Services {
			if err := gate.Make(filepath.Join(dir, s.Name, "gate")); err != nil {
				return err
			}
		}
		return os.Link(program, filepath.Join(dir, startName))
	})
}

// descriptionName is where Kolla's contract wants the description of what to
// copy where (kolla: docker/base/set_configs.py).
const descriptionName = "config.json"

// describe tells kollet-start, and the start script of Kolla's images, what to
// apply.
func describe(s generation.Service) ([]byte, error) {
	if len(s.Command) == 0 && len(s.Argv) > 0 && s.Argv[len(s.Argv)-1] == kollaStart {
		return nil, fmt.Errorf("its image starts with %s, which runs what it is told and else itself for ever; set services.%s.command", kollaStart, s.Name)
	}
	c := kolla.Config{Command: strings.Join(s.Argv, " ")}
	if len(s.Command) > 0 {
		var err error
		if c.Command, err = kolla.Command(s.Command); err != nil {
			return nil, err
		}
	}
	for _, f := range s.Files {
		c.ConfigFiles = append(c.ConfigFiles, kolla.ConfigFile{Source: gate.Config + "/" + f.Name, Dest: f.Dest, Owner: f.Owner, Perm: f.Perm})
	}
	for _, p := range s.Modes {
		if dir, ok := strings.CutSuffix(p.Path, "/"); ok {
			c.Directories = append(c.Directories, kolla.Directory{Path: dir, Owner: p.Owner, Perm: p.Perm})
			continue
		}
		c.Permissions = append(c.Permissions, kolla.Permission{Path: p.Path, Owner: p.Owner, Perm: p.Perm, Recurse: p.Recurse})
	}
	return kolla.Marshal(c)
}

// containerSpec is the spec of a service's staged container: its own, with
// kollet-start in front, at the gate of the given generation.
func (a *Agent) containerSpec(s generation.Service, number int) containers.Spec {
	spec := s.Spec
	spec.Name = stagedName(s.Name, number)
	spec.Image = s.Image.Reference()
	spec.Labels = a.labels(s.Name, number)
	spec.User = "0:0" // kollet-start needs root to apply files, and then becomes the user
	spec.Restart = containers.RestartNo
	spec.StopSignal = s.StopSignal
	spec.Entrypoint = []string{gate.Start, gate.FlagUser + s.User}
	for _, word := range s.Warm {
		spec.Entrypoint = append(spec.Entrypoint, gate.FlagWarm+word)
	}
	spec.Entrypoint = append(spec.Entrypoint, "--")
	spec.Command = s.Argv
	spec.Env = map[string]string{"KOLLA_SERVICE_NAME": s.Name, gate.Strategy: gate.StrategyOnce}
	for key, value := range s.Spec.Env {
		spec.Env[key] = value
	}
	store := a.store()
	spec.Mounts = append(slices.Clone(s.Spec.Mounts),
		containers.Mount{Type: containers.Bind, Source: filepath.Join(store.Path(number), startName), Target: gate.Start, ReadOnly: true},
		containers.Mount{Type: containers.Bind, Source: store.Gate(number, s.Name), Target: gate.Dir},
		containers.Mount{Type: containers.Bind, Source: store.Config(number, s.Name), Target: gate.Config, ReadOnly: true},
	)
	return spec.Canonical()
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
	id, err := t.Engine.Create(ctx, t.containerSpec(s, t.to.Number))
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
	if err := gate.Wait(ctx, t.store().Gate(t.to.Number, s.Name), c.PID); err != nil {
		return fmt.Errorf("%w%s", err, t.lastWords(context.WithoutCancel(ctx), id))
	}
	return nil
}

// unstage removes the containers of a generation that is given up. One whose
// guests run stays, stopped, until they are gone.
func (t *transaction) unstage(ctx context.Context) error {
	all, err := t.Engine.List(ctx, t.labels("", 0))
	if err != nil {
		return err
	}
	pins, err := t.pins()
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Spec.Labels[LabelGeneration] != fmt.Sprint(t.to.Number) {
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
	pins, err := t.pins()
	if err != nil || pins.generation(t.to.Number) {
		return errors.Join(err, t.store().Sweep())
	}
	return errors.Join(t.store().Remove(t.to.Number), t.store().Sweep())
}

// recall makes the target that an earlier generation was.
func (a *Agent) recall(number int) (*target, error) {
	if number == 0 {
		var err error
		if number, err = a.previous(); err != nil {
			return nil, BadInput{err}
		}
	}
	g, err := a.store().Load(number)
	if err != nil {
		return nil, BadInput{err}
	}
	t := &target{reason: fmt.Sprintf("rollback to %d", number), engine: g.Engine, pull: "missing", files: map[string][]generation.Rendered{}}
	t.recalled, t.secrets = true, a.secretsForRedaction()
	for _, s := range g.Services {
		for _, f := range s.Files {
			r := generation.Rendered{Name: f.Name}
			if r.Content, err = os.ReadFile(filepath.Join(a.store().Config(number, s.Name), f.Name)); err != nil {
				return nil, fmt.Errorf("read generation %d: %w", number, err)
			}
			if generation.Sum(r.Content) != f.SHA256 {
				return nil, BadInput{fmt.Errorf("generation %d cannot be gone back to: %s of %s was edited by hand", number, f.Name, s.Name)}
			}
			if r.Public, err = os.ReadFile(filepath.Join(a.store().Public(number, s.Name), f.Name)); err != nil {
				return nil, fmt.Errorf("read generation %d: %w", number, err)
			}
			t.files[s.Name] = append(t.files[s.Name], r)
		}
		t.services = append(t.services, s)
	}
	return t, nil
}

// lastWords is the end of what a container printed, for an error.
func (a *Agent) lastWords(ctx context.Context, id string) string {
	text := a.tail(ctx, id)
	if text == "" {
		return ""
	}
	return "; its last words:\n" + text
}
