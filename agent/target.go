package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
	"github.com/kollet/kollet/containers"
)

// Options change what an upgrade aims at, for one run.
type Options struct {
	Images map[string]string // service: image reference
	Tag    string            // instead of images.tag
	Pull   string            // instead of images.pull

	Archives []string      // before images.archives
	Wait     time.Duration // for archives that are not there yet
}

// target is what a node should become. Its services lack what only their images
// can say until bind is called.
type target struct {
	reason   string
	engine   string
	pull     string
	archives []string      // files that may hold images, as patterns
	wait     time.Duration // for them to be there
	misses   []string      // why archives did not do
	recalled bool          // an earlier generation: its images are known by content
	services []generation.Service
	files    map[string][]generation.Rendered // by service; with secrets
	wanted   map[string]string                // service: reference to pull
	redactor *redact.Redactor
}

// read makes the target that the node file describes. All problems of the node
// file, and of everything that it names, are in the error.
func (a *Agent) read(opts Options, reason string) (*target, error) {
	file, err := a.readNode(opts)
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	var problems report.Problems
	t := &target{reason: reason, engine: file.Engine, pull: file.Images.Pull, wait: opts.Wait, files: map[string][]generation.Rendered{}}
	t.archives = slices.Concat(opts.Archives, file.Images.Archives)
	renderer, err := configs.New(configs.Inputs{
		Host:      a.Name,
		Vars:      file.Vars,
		OwnVars:   file.OwnVars,
		Secrets:   a.readSecrets(file, &problems),
		Instance:  a.instance(),
		Templates: a.Path(node.TemplatesDir),
		Overrides: a.Path(node.OverridesDir),
	})
	if err != nil {
		return nil, node.BadInput{Err: err}
	}
	t.redactor = renderer.Redactor()
	for _, name := range file.Order() {
		b := builder{agent: a, file: file, renderer: renderer, problems: &problems, name: name, from: file.Services[name]}
		service, files := b.build()
		t.services = append(t.services, service)
		t.files[name] = files
	}
	if problems.Len() == 0 {
		problems.Add(renderer.Unused()...)
	}
	if err := problems.Err(); err != nil {
		return nil, node.BadInput{Err: t.redactor.Error(err)}
	}
	return t, nil
}

func (a *Agent) readNode(opts Options) (*nodefile.Node, error) {
	return a.ReadFile(nodefile.Change{Tag: opts.Tag, Images: opts.Images, Pull: opts.Pull})
}

// readSecrets reads every secret's value; what cannot be read is a problem.
func (a *Agent) readSecrets(file *nodefile.Node, problems *report.Problems) map[string]string {
	values := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(file.Secrets)) {
		key := "secrets." + name
		if env := file.Secrets[name].Env; env != "" {
			value, ok := os.LookupEnv(env)
			if !ok {
				problems.Addf(file.Place(key), key, "the environment variable %s is not set", env)
			}
			values[name] = value
			continue
		}
		data, err := os.ReadFile(a.Path(file.Secrets[name].File))
		if err != nil {
			problems.Addf(file.Place(key+".file"), key+".file", "cannot be read: %w; write the secret there, readable for root alone", err)
			values[name] = "?" // so that templates do not report it a second time
			continue
		}
		values[name] = strings.TrimSuffix(string(data), "\n")
	}
	return values
}

// instance is what cloud-init knows of this machine; empty where it did not run.
func (a *Agent) instance() map[string]any {
	data, err := os.ReadFile(a.Path(node.InstanceData))
	var values map[string]any
	if err != nil || json.Unmarshal(data, &values) != nil {
		return map[string]any{}
	}
	return values
}

// builder makes one service of a target.
type builder struct {
	agent    *Agent
	file     *nodefile.Node
	renderer *configs.Renderer
	problems *report.Problems
	name     string
	from     nodefile.Service
}

func (b *builder) build() (generation.Service, []generation.Rendered) {
	f, before := b.from, b.problems.Len()
	s := generation.Service{
		Name: b.name, Ref: f.Image, Warm: b.expandAll("warm", f.Warm), Modes: f.Prepare,
		StopGrace: f.StopGrace, After: f.After, Together: f.Together,
		Health: b.probes(), Guests: f.Guests,
		Spec: containers.Spec{
			Entrypoint: b.expandAll("entrypoint", f.Entrypoint), Command: b.expandAll("command", f.Command), WorkingDir: f.WorkDir, User: f.User,
			Env: b.environment(), Privileged: f.Privileged, PID: mode(f.PID), Network: mode(f.Network), IPC: mode(f.IPC),
			CgroupNS: mode(f.CgroupNS), ReadOnly: f.ReadOnly, CapAdd: f.CapAdd, CapDrop: f.CapDrop, Devices: f.Devices,
			Mounts: b.mounts(), StopSignal: f.StopSignal, Restart: containers.Restart(f.Restart), LogFiles: f.LogFiles,
		},
	}
	if f.LogSize != "" {
		s.Spec.LogSize, _ = units.RAMInBytes(f.LogSize) // the node file's check has been over it
	}
	for _, u := range f.Ulimits {
		s.Spec.Ulimits = append(s.Spec.Ulimits, containers.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	s.Spec = s.Spec.Canonical()
	b.refuseSecrets(s)
	if b.problems.Len() == before {
		b.check(s)
	}
	files := b.render(&s)
	return s, files
}

// check finds what no engine could honour before anything is pulled.
func (b *builder) check(s generation.Service) {
	s.Image.ID = "sha256:" + generation.Sum(nil) // not known yet
	if err := b.agent.ContainerSpec(s, 1).Check(); err != nil {
		key := "services." + b.name
		b.problems.Addf(b.file.Place(key), key, "%v", err)
	}
}

// mode translates the node file's word for a container's own namespace.
func mode(word string) string {
	if word == "private" {
		return ""
	}
	return word
}

func (b *builder) expand(key, text string) string {
	return b.expandAt("services."+b.name+"."+key, text)
}

func (b *builder) expandAt(full, text string) string {
	out, err := b.renderer.Expand(b.name, full, text)
	if err != nil {
		at := b.file.Place(full)
		b.problems.Add(report.Wrap(at, err))
	}
	return out
}

func (b *builder) expandAll(key string, list []string) []string {
	var out []string
	for i, text := range list {
		out = append(out, b.expand(fmt.Sprintf("%s[%d]", key, i), text))
	}
	return out
}

func (b *builder) environment() map[string]string {
	env := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(b.from.Environment)) {
		env[key] = b.expand("environment."+key, b.from.Environment[key])
	}
	return env
}

func (b *builder) probes() []nodefile.Probe {
	probes := slices.Clone(b.from.Health)
	for i := range probes {
		p := &probes[i]
		key := fmt.Sprintf("health[%d].", i)
		p.Exec = b.expandAll(key+"exec", p.Exec)
		p.TCP = b.expand(key+"tcp", p.TCP)
		p.Unix = b.expand(key+"unix", p.Unix)
		p.HTTP = b.expand(key+"http", p.HTTP)
	}
	return probes
}

func (b *builder) mounts() []containers.Mount {
	var mounts []containers.Mount
	for _, m := range b.from.Mounts {
		before := b.problems.Len()
		source := b.expandAt(m.Key+".source", m.Source)
		kind := containers.Volume
		switch {
		case m.Source == "":
			kind = containers.Tmpfs
		case source == "" && b.problems.Len() == before: // not what was meant: data in a tmpfs is gone with its container
			b.problems.Addf(m.Place, m.Key+".source", "%s is empty here; set what it names, or drop the mount", m.Source)
		case path.IsAbs(source):
			kind = containers.Bind
			if _, err := os.Stat(source); err != nil {
				b.problems.Addf(m.Place, m.Key+".source", "%s cannot be mounted: %v; make it, or drop the mount", source, reasonOf(err))
			}
		}
		mounts = append(mounts, containers.Mount{Type: kind, Source: source, Target: m.Target, ReadOnly: m.ReadOnly, Propagation: m.Propagation})
	}
	return mounts
}

func reasonOf(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// render renders the service's files.
func (b *builder) render(s *generation.Service) []generation.Rendered {
	var files []generation.Rendered
	for i, f := range b.from.Config {
		name := fmt.Sprintf("%02d-%s", i, filepath.Base(f.Dest))
		source := f.Source
		if source != "" {
			source = b.agent.Path(source)
		}
		out, err := b.renderer.Render(b.name, configs.File{
			Where: f.Key, Name: name, Template: f.Template, Source: source, Content: f.Content,
			Format: f.Format, Overrides: f.Overrides, Optional: f.Optional,
		})
		if err != nil {
			b.problems.Add(report.Wrap(f.Place, err))
			continue
		}
		if out.Omitted {
			continue
		}
		files = append(files, generation.Rendered{Name: name, Content: out.Content, Public: out.Public})
		s.Files = append(s.Files, generation.File{Name: name, Dest: f.Dest, Owner: f.Owner, Perm: f.Perm, SHA256: generation.Sum(out.Content)})
	}
	return files
}

// bind fills in what only a service's image can say: the program, and who runs it.
func bind(s *generation.Service, image containers.Image) {
	s.Image = generation.Image{ID: image.ID, Digest: image.Digest}
	entrypoint, command := s.Spec.Entrypoint, s.Spec.Command
	if len(entrypoint) == 0 {
		entrypoint = image.Entrypoint
		if len(command) == 0 {
			command = image.Command
		}
	}
	s.Argv, s.Command = slices.Concat(entrypoint, command), nil
	if len(s.Spec.Entrypoint) == 0 && slices.Equal(image.Command, []string{node.KollaStart}) {
		s.Argv, s.Command = slices.Concat(image.Entrypoint, image.Command), s.Spec.Command
	}
	s.User = cmp.Or(s.Spec.User, image.User)
	s.StopSignal = cmp.Or(s.Spec.StopSignal, image.StopSignal, "SIGTERM")
}

// images finds every service's image on this machine, without asking a
// registry, and notes in the target which have to be pulled. A service whose
// reference is that of the running generation keeps the image that it meant
// then, wherever its tag points by now.
func (a *Agent) images(ctx context.Context, t *target, current generation.Generation) error {
	t.wanted = map[string]string{}
	var found errgroup.Group
	found.SetLimit(parallel)
	var mu sync.Mutex // of t.wanted
	for i := range t.services {
		s := &t.services[i]
		found.Go(func() error {
			known := s.Image // set when an earlier generation is recalled
			if old, ok := current.Service(s.Name); ok && known.ID == "" && old.Ref == s.Ref && t.pull != "always" {
				known = old.Image
			}
			image, err := a.Engine.Image(ctx, cmp.Or(known.ID, s.Ref))
			if err == nil {
				if known.ID == image.ID {
					image.Digest = known.Digest // one image may have many; which the engine names first may change
				}
				bind(s, image)
			}
			if errors.Is(err, containers.ErrNotFound) || t.pull == "always" {
				mu.Lock()
				defer mu.Unlock()
				t.wanted[s.Name] = cmp.Or(known.Digest, s.Ref)
				return nil
			}
			if err != nil {
				return fmt.Errorf("look up the image of %s: %w", s.Name, err)
			}
			return nil
		})
	}
	return found.Wait()
}
