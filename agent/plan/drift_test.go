package plan

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// shelf is an engine that only lists and inspects containers.
type shelf struct {
	containers.Engine
	all []containers.Container
	now func() (containers.Container, error) // optional: what has become of the container meanwhile
}

func (s shelf) List(context.Context, map[string]string) ([]containers.Container, error) {
	return s.all, nil
}

func (s shelf) Inspect(_ context.Context, name string) (containers.Container, error) {
	for _, c := range s.all {
		if c.Spec.Name == name || c.ID == name {
			if s.now != nil {
				return s.now()
			}
			return c, nil
		}
	}
	return containers.Container{}, containers.ErrNotFound
}

// Of two containers of a service that run, that of an upgrade that was rolled back is drift.
func TestFindDriftOfGivenUp(t *testing.T) {
	type records []journal.Record
	const gone = "container alpha-g4 is running, but generation 4 was given up; `kollet gc` removes it"
	rolledBack := records{{Event: journal.End, Outcome: journal.RolledBack}}
	for name, c := range map[string]struct {
		journals map[int]records
		state    containers.State
		want     string
	}{
		"rolled back":           {map[int]records{4: rolledBack}, containers.StateRunning, gone},
		"another one began":     {map[int]records{4: rolledBack, 5: nil}, containers.StateRunning, gone},
		"no journal is left":    {map[int]records{3: rolledBack}, containers.StateRunning, "container alpha-g4 is running, but nothing is known of generation 4; the state directory may be an older copy"},
		"is stopped":            {map[int]records{4: rolledBack}, containers.StateExited, ""},
		"under way":             {map[int]records{4: nil}, containers.StateRunning, ""},
		"has committed by now":  {map[int]records{4: {{Event: journal.Commit}}}, containers.StateRunning, ""},
		"rolled back meanwhile": {map[int]records{4: rolledBack}, containers.StateRestarting, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriftNode(t)
			d.node.Host.Now = time.Now
			for number, rest := range c.journals {
				j, err := journal.Create(d.node.Journals(), journal.Record{From: 3, To: number}, time.Now)
				d.check(err)
				for _, r := range rest {
					d.check(j.Append(r))
				}
				d.check(j.Close())
			}
			second := *d.container
			second.ID, second.State, second.Spec.Name = "d", c.state, "alpha-g4"
			second.Spec.Labels = d.node.Labels("alpha", 4)
			d.node.Engine = shelf{all: []containers.Container{*d.container, second}, now: func() (containers.Container, error) {
				if c.state == containers.StateRestarting { // when it is looked at again
					second.State = containers.StateExited
				}
				return second, nil
			}}
			g := generation.Generation{Number: 3, Services: []generation.Service{d.service}}
			found, err := FindDrift(t.Context(), d.node, g)
			var got string
			for _, f := range found {
				got += f.Text
				if !f.IsReplaced() {
					t.Errorf("it is %q", f.What)
				}
			}
			if err != nil || got != c.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// driftNode is a node whose only service runs as its generation says, as process
// 7 of a made-up /proc.
type driftNode struct {
	*testing.T
	node      *node.Node
	service   generation.Service
	container *containers.Container // nil: removed
	config    string                // directory of the mounted files
	root      string                // the container's file system
	program   string                // kollet-start of its generation
	gate      string                // the directory of its gate
}

func newDriftNode(t *testing.T) *driftNode {
	t.Helper()
	dir := t.TempDir()
	d := &driftNode{T: t, node: &node.Node{Root: dir, Host: host.Host{Proc: dir + "/proc"}}}
	d.service = generation.Service{
		Name: "alpha", Origin: 3, Argv: []string{"alpha", "--run"}, Image: generation.Image{ID: "sha256:1"},
		Spec:  containers.Spec{NetworkMode: "host", Restart: containers.RestartAlways},
		Files: []generation.File{{Name: "alpha.conf", Dest: "/etc/alpha/alpha.conf", Owner: "root", Perm: "0640", SHA256: generation.Sum([]byte("a=1\n"))}},
	}
	d.config, d.root = d.node.Store().Config(3, "alpha"), d.node.Host.ProcessPath(7, "root")
	description, err := node.KollaConfig(d.service)
	if err != nil {
		t.Fatal(err)
	}
	d.write(d.config, node.ConfigName, string(description))
	d.program, d.gate = filepath.Join(d.node.Store().Path(3), node.StartName), d.node.Store().Gate(3, "alpha")
	program, err := os.ReadFile("/bin/true") // kollet-start may not have been built
	d.check(errors.Join(err, os.WriteFile(d.program, program, 0o755), gate.Make(d.gate), gate.Open(d.gate)))
	d.write(d.config, "alpha.conf", "a=1\n")
	d.write(d.root, "etc/alpha/alpha.conf", "a=1\n")
	task := d.node.Host.ProcessPath(7, "task/7")
	d.write(task, "cgroup", "2:pids:/docker/c\n")
	d.write(task, "stat", "7 (alpha) S 1 3"+strings.Repeat(" 0", 20))
	spec := d.node.ContainerSpec(d.service, 3)
	spec.Name, spec.Restart = "alpha", d.service.Spec.Restart
	d.container = &containers.Container{ID: "c", PID: 7, State: containers.StateRunning, ImageID: "sha256:1", Spec: spec}
	return d
}

func (d *driftNode) write(dir, name, content string) {
	d.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o640)
	}
	if err != nil {
		d.Fatal(err)
	}
}

func (d *driftNode) check(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func TestFindDrift(t *testing.T) {
	const copied = "/etc/alpha/alpha.conf"
	for _, c := range []struct {
		name   string
		change func(*driftNode)
		want   []string // "what path" of each finding; paths below the config directory by their names
	}{
		{"nothing", func(*driftNode) {}, nil},
		{"no generation", func(d *driftNode) { d.container = nil; d.service.Name = "" }, nil},

		{"container removed", func(d *driftNode) { d.container = nil }, []string{"container "}},
		{"container replaced", func(d *driftNode) { d.container.Spec.Labels = nil }, []string{"container "}},
		{"of another generation", func(d *driftNode) { d.container.Spec.Labels[node.LabelGeneration] = "2" }, []string{"container ", "replaced container "}},
		{"stopped", func(d *driftNode) { d.container.State = containers.StateExited }, []string{"container "}},
		{"image", func(d *driftNode) { d.container.ImageID = "sha256:2" }, []string{"image "}},
		{"image's name", func(d *driftNode) { d.container.Spec.Image = "alpha:other" }, nil},
		{"restart policy", func(d *driftNode) { d.container.Spec.Restart = containers.RestartNo }, []string{"spec "}},
		{"network and user", func(d *driftNode) { d.container.Spec.NetworkMode, d.container.Spec.User = "none", "1:1" }, []string{"spec ", "spec "}},

		{"mounted file edited", func(d *driftNode) { d.write(d.config, "alpha.conf", "a=2\n") }, []string{"mounted file alpha.conf"}},
		{"mounted file removed", func(d *driftNode) { d.check(os.Remove(d.config + "/alpha.conf")) }, []string{"mounted file alpha.conf"}},
		{"mounted file added", func(d *driftNode) { d.write(d.config, "beta.conf", "") }, []string{"mounted file beta.conf"}},
		{"config.json edited", func(d *driftNode) { d.write(d.config, node.ConfigName, "{}") }, []string{"mounted file config.json"}},
		{"mounted file unreadable", func(d *driftNode) {
			d.check(os.Remove(d.config + "/alpha.conf"))
			d.check(os.Mkdir(d.config+"/alpha.conf", 0o755))
		}, []string{"mounted file alpha.conf"}},
		{"config.json emptied", func(d *driftNode) { d.write(d.config, node.ConfigName, "") }, []string{"mounted file config.json"}},
		{"kollet-start removed", func(d *driftNode) { d.check(os.Remove(d.program)) }, []string{"missing file ../../kollet-start"}},
		{"kollet-start emptied", func(d *driftNode) { d.check(os.Truncate(d.program, 0)) }, []string{"missing file ../../kollet-start"}},
		{"a directory as kollet-start", func(d *driftNode) { d.check(errors.Join(os.Remove(d.program), os.Mkdir(d.program, 0o700))) }, []string{"mounted file ../../kollet-start"}},
		{"gate closed", func(d *driftNode) { d.check(gate.Close(d.gate)) }, []string{"missing file ../gate/open"}},
		{"gate removed", func(d *driftNode) { d.check(os.RemoveAll(d.gate)) }, []string{"missing file ../gate/open"}},
		{"a file as gate", func(d *driftNode) { d.check(errors.Join(os.RemoveAll(d.gate), os.WriteFile(d.gate, nil, 0o600))) }, []string{"mounted file ../gate/open"}},
		{"directory removed", func(d *driftNode) { d.check(os.RemoveAll(d.config)) }, []string{"mounted file ."}},

		{"copied file edited", func(d *driftNode) { d.write(d.root, copied, "a=2\n") }, []string{"copied file " + copied}},
		{"copied file removed", func(d *driftNode) { d.check(os.Remove(d.root + copied)) }, []string{"copied file " + copied}},
		{"copied file unreadable", func(d *driftNode) {
			d.check(os.Remove(d.root + copied))
			d.check(os.Mkdir(d.root+copied, 0o755))
		}, []string{"copied file " + copied}},
		{"copied file's mode", func(d *driftNode) { d.check(os.Chmod(d.root+copied, 0o666)) }, []string{"copied file " + copied}},
		{"copied file through a link", func(d *driftNode) { // absolute links lead through the container's file system
			d.check(os.Rename(d.root+"/etc/alpha", d.root+"/etc/real"))
			d.check(os.Symlink("/etc/real", d.root+"/etc/alpha"))
		}, nil},
		{"copied file replaced by a link", func(d *driftNode) {
			d.check(os.Rename(d.root+copied, d.root+"/etc/real"))
			d.check(os.Symlink("/etc/real", d.root+copied))
		}, []string{"copied file " + copied}},
		{"copied file replaced by a pipe", func(d *driftNode) {
			d.check(os.Remove(d.root + copied))
			d.check(unix.Mkfifo(d.root+copied, 0o640))
		}, []string{"copied file " + copied}},
		{"copied file without end", func(d *driftNode) { d.check(os.Truncate(d.root+copied, 1<<40)) }, []string{"copied file " + copied}},
		{"copied file's set-id bits", func(d *driftNode) { d.check(os.Chmod(d.root+copied, os.ModeSetuid|0o640)) }, []string{"copied file " + copied}},
		{"copied file of a stopped container", func(d *driftNode) {
			d.container.State = containers.StateExited
			d.check(os.Remove(d.root + copied))
		}, []string{"container "}},
		{"several", func(d *driftNode) {
			d.container.ImageID = "sha256:2"
			d.write(d.config, "alpha.conf", "a=2\n")
			d.write(d.root, copied, "a=2\n")
		}, []string{"image ", "mounted file alpha.conf", "copied file " + copied}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDriftNode(t)
			c.change(d)
			engine := shelf{}
			if d.container != nil {
				engine.all = []containers.Container{*d.container}
			}
			d.node.Engine = engine
			g := generation.Generation{Number: 4, Services: []generation.Service{d.service}}
			if d.service.Name == "" {
				g = generation.Generation{}
			}
			drift, err := FindDrift(t.Context(), d.node, g)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range drift {
				path := f.Path
				if f.What == mountedFile || f.What == missingFile {
					if path, err = filepath.Rel(d.config, path); err != nil {
						t.Fatal(err)
					}
				}
				got = append(got, fmt.Sprintf("%s %s", f.What, path))
				if f.Service != "alpha" || f.Text == "" {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q\n%+v", got, c.want, drift)
			}
		})
	}
}

// A container that runs cannot be started again without some of its files.
func TestLostFiles(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*driftNode)
		lost   bool
	}{
		"a file edited":        {func(d *driftNode) { d.write(d.config, "alpha.conf", "a=2\n") }, false},
		"a file removed":       {func(d *driftNode) { d.check(os.Remove(d.config + "/alpha.conf")) }, true},
		"config.json edited":   {func(d *driftNode) { d.write(d.config, node.ConfigName, "{}") }, false},
		"config.json emptied":  {func(d *driftNode) { d.write(d.config, node.ConfigName, "") }, true},
		"all files removed":    {func(d *driftNode) { d.check(os.RemoveAll(d.config)) }, true},
		"kollet-start removed": {func(d *driftNode) { d.check(os.Remove(d.program)) }, true},
		"a file as gate":       {func(d *driftNode) { d.check(errors.Join(os.RemoveAll(d.gate), os.WriteFile(d.gate, nil, 0o600))) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriftNode(t)
			c.change(d)
			d.node.Engine = shelf{all: []containers.Container{*d.container}}
			drift, err := FindDrift(t.Context(), d.node, generation.Generation{Number: 4, Services: []generation.Service{d.service}})
			if err != nil || len(drift) != 1 || drift[0].Lost != c.lost {
				t.Errorf("got %+v, %v", drift, err)
			}
		})
	}
}

// A process that exits while its files are compared takes them with it. They were not
// removed manually.
func TestFindDriftOfAServiceThatExits(t *testing.T) {
	for name, c := range map[string]struct {
		after   time.Duration // which the engine needs to notice
		changed bool          // the file was changed manually
		becomes func(*containers.Container)
		want    string
	}{
		"runs again":           {time.Second, false, func(c *containers.Container) { c.PID = 7 }, ""},
		"runs again, changed":  {time.Second, true, func(c *containers.Container) { c.PID = 7 }, "/etc/alpha/alpha.conf in alpha was changed manually"},
		"is started again":     {time.Second, false, func(c *containers.Container) { c.PID, c.State = 0, containers.StateRestarting }, "container alpha is not running: it is restarting"},
		"restarts repeatedly":  {time.Second, false, func(c *containers.Container) { c.PID, c.State, c.ExitCode = 0, containers.StateRestarting, 3 }, "container alpha is not running: it is restarting, with exit status 3"},
		"is paused":            {time.Second, false, func(c *containers.Container) { c.PID, c.State = 0, containers.StatePaused }, "container alpha is not running: it is paused"},
		"has exited":           {time.Second, false, func(c *containers.Container) { c.PID, c.State = 0, containers.StateExited }, "container alpha is not running: it is exited, with exit status 0"},
		"is removed":           {time.Second, false, nil, "container alpha was removed manually"},
		"exits, and no notice": {time.Hour, false, nil, "container alpha is not running: its process 6 has exited"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, began := newDriftNode(t), time.Now()
				if c.changed {
					d.write(d.root, "etc/alpha/alpha.conf", "a=2\n")
				}
				before := *d.container
				before.PID = 6 // which is gone
				d.node.Engine = shelf{all: []containers.Container{before}, now: func() (containers.Container, error) {
					now := before
					if time.Since(began) < c.after {
						return now, nil
					}
					if c.becomes == nil {
						return now, containers.ErrNotFound
					}
					c.becomes(&now)
					return now, nil
				}}
				drift, err := FindDrift(t.Context(), d.node, generation.Generation{Number: 4, Services: []generation.Service{d.service}})
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, f := range drift {
					got = append(got, f.Text)
				}
				if text := strings.Join(got, "; "); text != c.want {
					t.Errorf("got %q, want %q", text, c.want)
				}
			})
		})
	}
}
