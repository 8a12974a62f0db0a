package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Drift is one difference between a running node and its generation.
type Drift struct {
	Service string `json:"service"`
	What    string `json:"what"` // container, image, spec, mounted file, missing file, copied file, replaced container
	Path    string `json:"path,omitempty"`
	Text    string `json:"text"` // what differs, readable on its own

	Lost bool `json:"-"` // a container that runs cannot be started again without it
}

const (
	// What of a container that was replaced and was started again, and of one that an upgrade
	// was rolled back from.
	replaced    = "replaced container"
	mountedFile = "mounted file"
	missingFile = "missing file" // What of a file that an upgrade restores
)

// KeepsContainer reports whether an upgrade repairs it without replacing the service's container.
func (d Drift) KeepsContainer() bool { return d.IsReplaced() || d.What == missingFile }

// IsReplaced reports whether a container runs that is not of the generation. An upgrade
// stops it, and replaces nothing for it.
func (d Drift) IsReplaced() bool { return d.What == replaced }

// FindDrift compares what runs with a generation: each container, its image and
// spec, every mounted file and every copy that the container made of one, and what else it needs
// to be started again. No replaced container may run. What an upgrade does that has not ended is
// no drift.
func FindDrift(ctx context.Context, n *node.Node, g generation.Generation) ([]Drift, error) {
	drift := []Drift{}
	if g.Number == 0 {
		return drift, nil
	}
	cutOver := n.CutOver()
	key, err := n.Key()
	if err != nil {
		return nil, err
	}
	all, err := n.Containers(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range g.Services {
		if s.Origin == 0 {
			continue // kolla-ansible's
		}
		d := drifter{node: n, key: key, service: s}
		at := slices.IndexFunc(all, func(c containers.Container) bool {
			return c.Spec.Labels[node.LabelService] == s.Name && c.Spec.Labels[node.LabelGeneration] == strconv.Itoa(s.Origin)
		})
		if at < 0 {
			d.missing(ctx)
		} else {
			if err := d.checkRun(ctx, all[at]); err != nil {
				return nil, err
			}
		}
		drift = append(drift, d.found...)
	}
	drift = append(drift, startedAgain(g, all)...)
	given, err := givenUp(ctx, n, g, all)
	if err != nil {
		return nil, err
	}
	drift = append(drift, given...)
	cutOver = append(cutOver, n.CutOver()...) // it may have ended, or continued, in between
	return slices.DeleteFunc(drift, func(d Drift) bool { return slices.Contains(cutOver, d.Service) }), nil
}

// startedAgain finds replaced containers that run.
func startedAgain(g generation.Generation, all []containers.Container) []Drift {
	var found []Drift
	for _, c := range all {
		name := c.Spec.Labels[node.LabelService]
		number, err := strconv.Atoi(c.Spec.Labels[node.LabelGeneration])
		s, ok := g.Service(name)
		if err != nil || number >= g.Number || ok && s.Origin == number || c.State.Stopped() {
			continue
		}
		found = append(found, Drift{Service: name, What: replaced, Text: fmt.Sprintf("container %s was replaced and was started again manually: it is %s", c.Spec.Name, c.State)})
	}
	return found
}

// givenUp finds containers of later generations that run, although the upgrade to theirs was rolled
// back. Those of an upgrade that is under way are a part of it. It may end after they were
// listed, and then has stopped them.
func givenUp(ctx context.Context, n *node.Node, g generation.Generation, all []containers.Container) ([]Drift, error) {
	last, undone, err := n.LastUndone()
	if err != nil {
		return nil, err
	}
	var found []Drift
	for _, c := range all {
		number := node.GenerationOf(c)
		if number <= g.Number || c.State.Stopped() || number == last && !undone {
			continue
		}
		now, err := n.Engine.Inspect(ctx, c.ID)
		if errors.Is(err, containers.ErrNotFound) || err == nil && now.State.Stopped() {
			continue
		}
		if err != nil {
			return nil, err
		}
		why := fmt.Sprintf("generation %d was given up; `kollet gc` removes it", number)
		if number > last {
			why = fmt.Sprintf("nothing is known of generation %d; the state directory may be an older copy", number)
		}
		found = append(found, Drift{Service: c.Spec.Labels[node.LabelService], What: replaced, Text: fmt.Sprintf("container %s is %s, but %s", now.Spec.Name, now.State, why)})
	}
	return found, nil
}

// drifter collects how one service drifted.
type drifter struct {
	node    *node.Node
	key     generation.Key
	service generation.Service
	found   []Drift
}

func (d *drifter) add(what, path, format string, args ...any) {
	d.found = append(d.found, Drift{Service: d.service.Name, What: what, Path: path, Text: fmt.Sprintf(format, args...)})
}

func (d *drifter) missing(ctx context.Context) {
	if other, err := d.node.Engine.Inspect(ctx, d.service.Name); err == nil {
		if number := node.GenerationOf(other); number > 0 && other.Spec.Labels[node.LabelNode] == d.node.State() {
			d.add("container", "", "container %s (%.12s) is of generation %d, not %d; the state directory may be an older copy", d.service.Name, other.ID, number, d.service.Origin)
			return
		}
		d.add("container", "", "container %s (%.12s) was not created by kollet; it was replaced manually", d.service.Name, other.ID)
		return
	}
	if all, err := d.node.Containers(ctx); err == nil {
		unlisted, _ := d.node.Unlisted(ctx, all) // an upgrade says what went wrong
		for _, u := range unlisted {
			if u.Service == d.service.Name && !u.Waits {
				d.add("container", "", "container %s (%.12s) runs as process %d, but its engine does not list it", d.service.Name, u.Container, u.PID)
				return
			}
		}
	}
	d.add("container", "", "container %s was removed manually", d.service.Name)
}

// exitDelay is how long an engine may take to notice that a process exited.
const exitDelay = 10 * time.Second

// checkRun checks a container, whose copied files are seen through its process. If that
// exits meanwhile they are not there, which says nothing about them: the container is
// checked again when the engine has noticed.
func (d *drifter) checkRun(ctx context.Context, c containers.Container) error {
	for until := time.Now().Add(exitDelay); ; {
		before := len(d.found)
		d.check(c)
		if !slices.ContainsFunc(d.found[before:], func(f Drift) bool { return f.What == copiedFile }) {
			return nil
		}
		if d.node.Host.Runs(c.PID, c.ID) {
			return nil
		}
		if time.Now().After(until) {
			d.found = slices.DeleteFunc(d.found, func(f Drift) bool { return f.What == copiedFile })
			d.add("container", "", "container %s is not running: its process %d has exited", d.service.Name, c.PID)
			return nil
		}
		d.found = d.found[:before]
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
		again, err := d.node.Engine.Inspect(ctx, c.ID)
		if errors.Is(err, containers.ErrNotFound) {
			d.missing(ctx)
			return nil
		}
		if err != nil {
			return err
		}
		c = again
	}
}

func (d *drifter) check(c containers.Container) {
	s := d.service
	if c.PID > 0 {
		if err := d.node.Host.Killed(c.PID); err != nil {
			d.add("container", "", "container %s is not running: %v", s.Name, err)
		}
	}
	if c.State != containers.StateRunning {
		d.add("container", "", "container %s is not running: it is %s", s.Name, c.Condition())
	}
	if c.ImageID != s.Image.ID {
		d.add("image", "", "container %s runs image %.19s, not %.19s", s.Name, c.ImageID, s.Image.ID)
	}
	want := d.node.ContainerSpec(s, s.Origin)
	want.Name, want.Restart = s.Name, s.Spec.Restart
	want.Image = c.Spec.Image // one of the names of the image that was compared above
	for _, change := range specChanges(want, c.Spec) {
		d.add("spec", "", "container %s: %s", s.Name, change)
	}
	d.mounted()
	d.missingFiles()
	if c.State == containers.StateRunning {
		d.copies(c.PID)
	}
}

// mounted checks the service's files in its generation, which its container
// mounts and would apply again at a restart.
func (d *drifter) mounted() {
	s := d.service
	dir := d.node.Store().Config(s.Origin, s.Name)
	description, err := node.KollaConfig(s)
	if err != nil {
		d.add(mountedFile, dir, "%v", err)
		return
	}
	want := map[string]generation.File{node.ConfigName: {SHA256: generation.Sum(description)}}
	for _, f := range s.Files {
		want[f.Name] = f
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, expected := want[name]
		delete(want, name)
		if !expected {
			d.add(mountedFile, path, "%s was added manually", path)
		} else if err := d.unchanged(path, e, f); err != nil {
			d.add(mountedFile, path, "%v", err)
			d.found[len(d.found)-1].Lost = name == node.ConfigName && !isJSON(path)
		}
		if e.IsDir() && !f.Directory {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		d.lost(mountedFile, dir, "the directory of mounted files cannot be read: %v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		path := filepath.Join(dir, name)
		if want[name].Part { // its directory is copied without it
			d.add(mountedFile, path, "%s was removed manually", path)
		} else {
			d.lost(mountedFile, path, "%s was removed manually", path)
		}
	}
}

// isJSON reports whether a file has JSON. kollet-start stops if config.json has not.
func isJSON(path string) bool {
	data, err := os.ReadFile(path)
	return err == nil && json.Valid(data)
}

// missingFiles checks what else the service's container mounts of its generation.
func (d *drifter) missingFiles() {
	for _, m := range d.node.Missing(d.service) {
		what := mountedFile
		if m.Restorable() {
			what = missingFile
		}
		d.lost(what, m.Path, "%v", m.Err)
	}
}

// lost adds drift without whose repair the container cannot be started again.
func (d *drifter) lost(what, path, format string, args ...any) {
	d.add(what, path, format, args...)
	d.found[len(d.found)-1].Lost = true
}

// unchanged returns an error unless a mounted file is what was written.
func (d *drifter) unchanged(path string, e fs.DirEntry, f generation.File) error {
	changed := fmt.Errorf("%s was changed manually", path)
	if f.Preserve {
		info, err := e.Info()
		if err != nil {
			return err
		}
		if keep, err := generation.PropertiesOf(info); err != nil || keep.Owner() != f.Owner || keep.Perm() != f.Perm {
			return changed
		}
	}
	switch {
	case f.Directory && e.IsDir():
		return nil
	case f.Directory:
		return changed
	case f.Link != "":
		if target, err := os.Readlink(path); err != nil || target != f.Link {
			return changed
		}
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !d.key.Matches(data, f.SHA256) {
		return changed
	}
	return nil
}
