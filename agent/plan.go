package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Plan is what an upgrade would change.
type Plan struct {
	From    int      `json:"from"`
	Reason  string   `json:"reason"`
	Changes []Change `json:"changes"` // in start order, removed services last; services that stay as they are have none
	Drift   []Drift  `json:"drift"`   // what differs from generation From by somebody's hand
}

// Empty reports whether an upgrade would do nothing.
func (p Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Drift) == 0 }

// Action is what happens to a service.
type Action string

const (
	Add     Action = "add"
	Replace Action = "replace"
	Drop    Action = "remove"
	Adjust  Action = "adjust" // only how kollet treats it changes (probes, order): its container stays
)

// Change is what happens to one service, and why.
type Change struct {
	Service string       `json:"service"`
	Action  Action       `json:"action"`
	Image   *ImageChange `json:"image,omitempty"`
	Spec    []string     `json:"spec,omitempty"` // container settings, as "privileged: false, now true"
	Files   []FileChange `json:"files,omitempty"`
	Repair  []string     `json:"repair,omitempty"` // drift that replacing the container mends
}

// ImageChange tells which image replaces which.
type ImageChange struct {
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	Pull bool   `json:"pull,omitempty"` // it is not on this machine yet
}

// FileChange tells how a file in a container changes, without secrets.
type FileChange struct {
	Path string `json:"path"`
	Diff string `json:"diff,omitempty"` // unified; empty when only secrets or the owner or mode differ, or a new file is empty
	Note string `json:"note,omitempty"`
}

// Plan tells what an upgrade would change, and changes nothing.
func (a *Agent) Plan(ctx context.Context, opts Options) (Plan, error) {
	t, err := a.read(opts, "upgrade")
	if err != nil {
		return Plan{}, err
	}
	current, err := a.Store().Current()
	if err != nil {
		return Plan{}, err
	}
	return a.plan(ctx, t, current)
}

// plan compares a target with the generation that runs and with what is really
// there.
func (a *Agent) plan(ctx context.Context, t *target, current generation.Generation) (Plan, error) {
	p := Plan{From: current.Number, Reason: t.reason, Changes: []Change{}}
	if err := sameEngine(t, current); err != nil {
		return p, err
	}
	var asked errgroup.Group
	asked.Go(func() error { return a.images(ctx, t, current) })
	asked.Go(func() (err error) {
		p.Drift, err = a.drift(ctx, current)
		return err
	})
	if err := asked.Wait(); err != nil {
		return p, err
	}
	for _, s := range t.services {
		change, err := a.compare(s, t.files[s.Name], current, s.Image.ID == "")
		if err != nil {
			return p, err
		}
		for _, d := range p.Drift {
			if d.Service == s.Name {
				change.Repair = append(change.Repair, d.Text)
				change.Action = Replace
			}
		}
		if change.Action != "" {
			p.Changes = append(p.Changes, change)
		}
	}
	for _, old := range current.Services {
		if !slices.ContainsFunc(t.services, func(s generation.Service) bool { return s.Name == old.Name }) {
			p.Changes = append(p.Changes, Change{Service: old.Name, Action: Drop})
		}
	}
	return p, nil
}

// sameEngine refuses another engine than the one that has the node's containers.
func sameEngine(t *target, current generation.Generation) error {
	if current.Number == 0 || current.Engine == t.engine {
		return nil
	}
	return node.BadInput{Err: fmt.Errorf("engine: this node runs on %s, the node file says %s; set engine: %s: moving a node to another engine is not supported", current.Engine, t.engine, current.Engine)}
}

// compare tells how one service differs from the generation that runs. Its
// Action is empty if it does not.
func (a *Agent) compare(s generation.Service, files []generation.Rendered, current generation.Generation, missing bool) (Change, error) {
	c := Change{Service: s.Name}
	old, exists := current.Service(s.Name)
	if missing || !exists || s.Image.ID != old.Image.ID {
		c.Image = &ImageChange{From: old.Ref, To: s.Ref, Pull: missing}
	}
	if !exists {
		c.Action = Add
		return c, nil
	}
	var err error
	if c.Files, err = a.compareFiles(s, files, old, current.Number); err != nil {
		return c, err
	}
	c.Spec = specChanges(old.Spec, s.Spec)
	if !missing && c.Image == nil {
		c.Spec = append(c.Spec, valueChanges("program", old.Argv, s.Argv)...)
	}
	c.Spec = append(c.Spec, valueChanges("warm", old.Warm, s.Warm)...)
	c.Spec = append(c.Spec, valueChanges("prepare", old.Modes, s.Modes)...)
	if len(c.Files) == 0 && !slices.EqualFunc(old.Files, s.Files, func(a, b generation.File) bool { return a.Name == b.Name }) {
		c.Spec = append(c.Spec, "config: its entries stand in another order") // later ones go over earlier ones
	}
	switch {
	case missing || s.Fingerprint() != old.Fingerprint():
		c.Action = Replace
	case !sameTreatment(old, s):
		c.Action = Adjust
		c.Spec = append(c.Spec, "health, order or reference: the container stays")
	}
	return c, nil
}

// sameTreatment compares all that is not the container itself.
func sameTreatment(old, new generation.Service) bool {
	old.Origin, new.Origin = 0, 0
	a, errA := json.Marshal(old)
	b, errB := json.Marshal(new)
	return errA == nil && errB == nil && string(a) == string(b)
}

func (a *Agent) compareFiles(s generation.Service, files []generation.Rendered, old generation.Service, number int) ([]FileChange, error) {
	public := map[string]string{}
	for _, f := range files {
		public[f.Name] = string(f.Public)
	}
	var changes []FileChange
	was := map[string]generation.File{}
	for _, f := range old.Files {
		was[f.Dest] = f
	}
	for _, f := range s.Files {
		before, exists := was[f.Dest]
		delete(was, f.Dest)
		if exists && before.SHA256 == f.SHA256 && before.Owner == f.Owner && before.Perm == f.Perm {
			continue
		}
		text := ""
		if exists {
			data, err := os.ReadFile(filepath.Join(a.Store().Public(number, s.Name), before.Name))
			if err != nil {
				return nil, fmt.Errorf("compare %s of %s: %w", f.Dest, s.Name, err)
			}
			text = string(data)
		}
		change := FileChange{Path: f.Dest, Diff: udiff.Unified(f.Dest+" (now)", f.Dest+" (new)", text, public[f.Name])}
		switch {
		case exists && (before.Owner != f.Owner || before.Perm != f.Perm):
			change.Note = fmt.Sprintf("owner %s, mode %s; now owner %s, mode %s", before.Owner, before.Perm, f.Owner, f.Perm)
		case exists && change.Diff == "":
			change.Note = "a secret in it changes"
		case !exists && change.Diff == "":
			change.Note = "new, and empty"
		}
		changes = append(changes, change)
	}
	for _, dest := range slices.Sorted(maps.Keys(was)) {
		changes = append(changes, FileChange{Path: dest, Note: "goes back to the image's own"})
	}
	return changes, nil
}

// specChanges lists the settings in which two specs differ, as their JSON names
// and values.
func specChanges(old, new containers.Spec) []string {
	var changes []string
	before, after := reflect.ValueOf(old.Canonical()), reflect.ValueOf(new.Canonical())
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
		changes = append(changes, valueChanges(name, before.Field(i).Interface(), after.Field(i).Interface())...)
	}
	return changes
}

// valueChanges says how a value differs, if it does. Of lists and mappings it
// names the entries alone that do.
func valueChanges(name string, old, new any) []string {
	a, b := entries(old), entries(new)
	var lost []string
	won := slices.Clone(b)
	for _, e := range a {
		if at := slices.Index(won, e); at >= 0 {
			won = slices.Delete(won, at, at+1)
		} else {
			lost = append(lost, e)
		}
	}
	switch {
	case len(lost) == 0 && len(won) == 0:
		if !slices.Equal(a, b) {
			return []string{name + ": in another order"}
		}
		return nil
	case len(lost) == 0:
		return []string{fmt.Sprintf("%s: now also %s", name, strings.Join(won, ", "))}
	case len(won) == 0:
		return []string{fmt.Sprintf("%s: no longer %s", name, strings.Join(lost, ", "))}
	}
	return []string{fmt.Sprintf("%s: %s, now %s", name, strings.Join(lost, ", "), strings.Join(won, ", "))}
}

// entries takes a value apart for comparison: a list into its items, a mapping
// into KEY=VALUE, anything else into itself.
func entries(value any) []string {
	v := reflect.ValueOf(value)
	var out []string
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			out = append(out, show(v.Index(i).Interface()))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			out = append(out, fmt.Sprintf("%v=%v", key, v.MapIndex(key)))
		}
		slices.Sort(out)
	default:
		out = append(out, show(value))
	}
	return out
}

func show(value any) string {
	if text, ok := value.(string); ok {
		if text == "" {
			return "unset"
		}
		return text
	}
	if m, ok := value.(containers.Mount); ok {
		return m.String()
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
