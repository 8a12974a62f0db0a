package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/wary"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
	"github.com/kollet/kollet/containers"
)

// builder makes one service of a target.
type builder struct {
	node     *node.Node
	key      generation.Key
	file     *nodefile.Node
	writable wary.Dirs // see writableDirs
	renderer *configs.Renderer
	problems *report.Problems
	name     string
	from     nodefile.Service

	elsewhere bool
	explain   string // see Explain
	explained []Explained
	osloFiles []OsloFile
}

func (b *builder) build() (generation.Service, []generation.Rendered) {
	f, before := b.from, b.problems.Len()
	s := generation.Service{
		Name: b.name, Ref: f.Image, InsteadOf: f.InsteadOf, Warmup: b.expandAll("warmup", f.Warmup), Permissions: f.Permissions, Preload: f.Preload,
		StopGracePeriod: f.StopGracePeriod, DependsOn: f.DependsOn, Group: f.Group, ReplaceWithDependencies: f.ReplaceWithDependencies,
		Healthcheck: b.healthcheck(), Requires: b.requires(), Guests: b.guests(), ListedAs: f.ListedAs, Problems: b.expandAll("problems", f.Problems),
		Version: b.expandAll("version", f.Version),
		Spec: containers.Spec{
			Entrypoint: b.expandAll("entrypoint", f.Entrypoint), Command: b.expandAll("command", f.Command), WorkingDir: f.WorkingDir, User: f.User,
			Env: b.environment(), Privileged: f.Privileged, PID: mode(f.PID), NetworkMode: mode(f.NetworkMode), IPC: mode(f.IPC),
			Cgroup: mode(f.Cgroup), ReadOnly: f.ReadOnly, CapAdd: f.CapAdd, CapDrop: f.CapDrop, Devices: f.Devices,
			Mounts: b.mounts(), StopSignal: f.StopSignal, Restart: containers.Restart(f.Restart), LogFiles: f.LogFiles,
		},
	}
	s.Spec.Dimensions, _, _ = f.Dimensions.Parse() // validated with the node file
	s.Spec.Security = b.security()
	s.Spec.Healthcheck = f.EngineHealthcheck.Spec()
	s.Spec.Healthcheck.Test = b.expandAll("engine_healthcheck.test", f.EngineHealthcheck.Test)
	s.Spec.LogSize, _ = f.LogBytes() // validated with the node file
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

// check finds settings that no engine accepts, before anything is pulled.
func (b *builder) check(s generation.Service) {
	s.Image.ID = "sha256:" + generation.Sum(nil) // not known yet
	if err := b.node.ContainerSpec(s, 1).Check(); err != nil {
		key := "services." + b.name
		b.problems.Addf(b.file.Place(key), key, "%v", err)
	}
}

// mode translates the node file's word for a private namespace.
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

func (b *builder) healthcheck() []nodefile.Probe {
	before := b.problems.Len()
	probes := b.probes("healthcheck", b.from.Healthcheck)
	for _, p := range probes {
		if kind, _ := p.Address(); kind == "" && b.problems.Len() == before {
			b.problems.Addf(p.Place, p.Key, "it is empty on this node; set the variable, or remove the probe")
		}
	}
	return probes
}

// requires leaves out what this node does not use, such as Keystone.
func (b *builder) requires() []nodefile.Probe {
	return slices.DeleteFunc(b.probes("requires", b.from.Requires), func(p nodefile.Probe) bool {
		kind, _ := p.Address()
		return kind == ""
	})
}

func (b *builder) probes(list string, from []nodefile.Probe) []nodefile.Probe {
	probes := slices.Clone(from)
	for i := range probes {
		p := &probes[i]
		key := fmt.Sprintf("%s[%d].", list, i)
		p.Exec = b.expandAll(key+"exec", p.Exec)
		p.TCP = b.expand(key+"tcp", p.TCP)
		p.Unix = b.expand(key+"unix", p.Unix)
		p.HTTP = b.expand(key+"http", p.HTTP)
		p.AMQP = b.expand(key+"amqp", p.AMQP)
		p.OVSDB = b.expand(key+"ovsdb", p.OVSDB)
		p.CAFile = b.expand(key+"ca_file", p.CAFile)
		if key, err := p.Check(); err != nil {
			b.problems.Addf(p.Place, p.Key+"."+key, "%v", err)
		}
	}
	return probes
}

func (b *builder) guests() *nodefile.Guests {
	if b.from.Guests == nil {
		return nil
	}
	g := *b.from.Guests
	g.List, g.Version = b.expandAll("guests.list", g.List), b.expandAll("guests.version", g.Version)
	g.Jobs = b.expandAll("guests.jobs", g.Jobs)
	c := &g.Canary
	c.Start, c.Output = b.expandAll("guests.canary.start", c.Start), b.expandAll("guests.canary.output", c.Output)
	c.Expect, c.Stop = b.expand("guests.canary.expect", c.Expect), b.expandAll("guests.canary.stop", c.Stop)
	if !c.Enabled {
		g.Canary = nodefile.Canary{}
	}
	return &g
}

// security returns the service's security, with the seccomp profile as it is now: a
// generation is complete without the file.
func (b *builder) security() containers.Security {
	out, file, _, _ := b.from.Security() // validated with the node file
	key := "services." + b.name + ".security_opt"
	if out.AppArmor != "" && out.AppArmor != containers.Unconfined && !b.elsewhere {
		if err := b.node.Host.CheckAppArmor(out.AppArmor); err != nil {
			b.problems.Addf(b.file.Place(key), key, "apparmor=%s: %w", out.AppArmor, err)
		}
	}
	if file == "" {
		return out
	}
	data, err := b.writable.ReadFile(b.node.Path(file), mostRead)
	if err != nil {
		b.problems.Addf(b.file.Place(key), key, "the seccomp profile cannot be read: %w", remedied(err, "write it to this file, as JSON"))
		return out
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		b.problems.Addf(b.file.Place(key), key, "seccomp profile %s: %w", file, err)
	}
	out.Seccomp = compact.String()
	return out
}

func (b *builder) mounts() []containers.Mount {
	var mounts []containers.Mount
	for _, m := range b.from.Volumes {
		before := b.problems.Len()
		source := b.expandAt(m.Key+".source", m.Source)
		kind := containers.Volume
		switch {
		case m.Source == "":
			kind = containers.Tmpfs
		case source == "" && b.problems.Len() == before: // a tmpfs would lose its data with the container
			b.problems.Addf(m.Place, m.Key+".source", "%s is empty on this node; set the variable, or remove the volume", m.Source)
		case path.IsAbs(source):
			kind = containers.Bind
			on := filepath.Join(b.node.Host.Root, source)
			if _, err := os.Stat(on); err != nil && !b.elsewhere {
				b.problems.Addf(m.Place, m.Key+".source", "%s cannot be mounted: %w; %s", source, node.WithoutPath(err), b.remedyOf(m))
			} else if b.inState(on) {
				b.problems.Addf(m.Place, m.Key+".source", "%s is in kollet's state directory, which no service may read or write; mount another directory", source)
			}
		}
		size, _ := m.Bytes() // validated with the node file
		mounts = append(mounts, containers.Mount{Type: kind, Source: source, Target: m.Target, ReadOnly: m.ReadOnly, Propagation: m.Propagation, Size: size, Mode: m.Mode})
	}
	return mounts
}

// remedyOf says what to do about a volume whose source is not there. One of the profile cannot be
// removed, but the node file can give its target another source.
func (b *builder) remedyOf(m nodefile.Volume) string {
	if m.Place.File != "profile "+b.file.Profile {
		return "create it, or remove the volume"
	}
	return fmt.Sprintf("create the directory, or mount another one: set services.%s.volumes in the node file to [{source: DIRECTORY, target: %s}]", b.name, m.Target)
}

// inState reports whether a path on the host is the state directory, or lies below it, by
// whatever name. What is in there decides what kollet runs.
func (b *builder) inState(on string) bool {
	state, err := os.Stat(b.node.State())
	if err != nil {
		return false // nothing can be below it yet
	}
	at, err := filepath.EvalSymlinks(on)
	if err != nil {
		return false
	}
	for {
		if info, err := os.Stat(at); err == nil && os.SameFile(info, state) {
			return true
		}
		above := filepath.Dir(at)
		if above == at {
			return false
		}
		at = above
	}
}
