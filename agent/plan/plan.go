// Package plan compares a target with the current generation and with what
// really runs, and says what an upgrade would change. It changes nothing.
package plan

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
)

// Plan is what an upgrade would change.
type Plan struct {
	From    int      `json:"from"`
	Reason  string   `json:"reason"`
	Changes []Change `json:"changes"` // in start order, removed services last; unchanged services have none
	Drift   []Drift  `json:"drift"`   // what was changed manually since generation From

	Hotfixes []Hotfix `json:"hotfixes,omitempty"` // of generation From, and of the next one
}

// Empty reports whether an upgrade would do nothing.
func (p Plan) Empty() bool {
	return len(p.Changes) == 0 && len(p.Drift) == 0 && !slices.ContainsFunc(p.Hotfixes, Hotfix.changes)
}

// Action is what happens to a service.
type Action string

const (
	Add     Action = "add"
	Replace Action = "replace"
	Drop    Action = "remove"
	// UpdateInPlace changes only how kollet treats the service (probes, order). Its
	// container keeps running.
	UpdateInPlace Action = "update in place"
)

// Change is what happens to one service, and why.
type Change struct {
	Service string       `json:"service"`
	Action  Action       `json:"action"`
	Image   *ImageChange `json:"image,omitempty"`
	Spec    []string     `json:"spec,omitempty"` // settings, as "privileged: false, now true"
	Files   []FileChange `json:"files,omitempty"`
	Repair  []string     `json:"repair,omitempty"` // drift that replacing the container repairs
}

// ImageChange says which image replaces which.
type ImageChange struct {
	From string `json:"from,omitempty"`
	To   string `json:"to"`
	Pull bool   `json:"pull,omitempty"` // it is not on this machine yet

	InsteadOf string `json:"instead_of,omitempty"` // the node file's image, if a hotfix gives another one
}

// FileChange says how a file in a container changes, without secrets.
type FileChange struct {
	Path string `json:"path"`
	Diff string `json:"diff,omitempty"` // unified; empty when only secrets or the owner or mode differ, or a new file is empty
	Note string `json:"note,omitempty"`
}

// Make compares a target with the current generation and with what really runs.
// It also returns the images that it found, so that they are looked up once.
func Make(ctx context.Context, n *node.Node, t *target.Target, current generation.Generation) (Plan, target.Images, error) {
	p := Plan{From: current.Number, Reason: t.Reason, Changes: []Change{}, Hotfixes: hotfixes(t, current)}
	if err := SameEngine(ctx, n, t, current); err != nil {
		return p, target.Images{}, err
	}
	var images target.Images
	var queries errgroup.Group
	queries.Go(func() (err error) {
		images, err = t.FindImages(ctx, n, current)
		return err
	})
	queries.Go(func() (err error) {
		p.Drift, err = FindDrift(ctx, n, current)
		return err
	})
	if err := queries.Wait(); err != nil {
		return p, images, err
	}
	for _, s := range t.With(images) {
		change, err := compare(n.Store(), t.Key, s, t.Files[s.Name], current)
		if err != nil {
			return p, images, err
		}
		if change.Image != nil && !t.Recalled {
			change.Image.InsteadOf = s.InsteadOf
		}
		for _, d := range p.Drift {
			if d.Service == s.Name && !d.KeepsContainer() {
				change.Repair = append(change.Repair, d.Text)
				change.Action = Replace
			}
		}
		if dep := p.replaced(s); dep != "" && change.Action != Add && change.Action != Replace {
			change.Action, change.Spec = Replace, append(change.Spec, dep+", which it depends on, is replaced")
		}
		if change.Action != "" {
			p.Changes = append(p.Changes, change)
		}
	}
	for _, old := range current.Services {
		if !slices.ContainsFunc(t.Services, func(s generation.Service) bool { return s.Name == old.Name }) {
			p.Changes = append(p.Changes, Change{Service: old.Name, Action: Drop})
		}
	}
	return p, images, nil
}

// replaced returns the first service whose replacement replaces s too; "" if there
// is none. Dependencies come first in the start order.
func (p Plan) replaced(s generation.Service) string {
	if !s.ReplaceWithDependencies {
		return ""
	}
	for _, c := range p.Changes {
		if (c.Action == Replace || c.Action == Add) && slices.Contains(s.DependsOn, c.Service) {
			return c.Service
		}
	}
	return ""
}

// SameEngine refuses a target with another engine than the one that has the
// node's containers. Before the first generation, that is the one on which an
// upgrade was interrupted, even if the node file says another one by now.
func SameEngine(ctx context.Context, n *node.Node, t *target.Target, current generation.Generation) error {
	if current.Number == 0 {
		info, err := n.Engine.Info(ctx)
		if err != nil || info.Name == t.Engine {
			return err
		}
		what, remedy := "an upgrade", "run `kollet recover`, then try again"
		if open, err := n.Interrupted(); err == nil && !open { // this command has recovered it
			what, remedy = "it", "repeat the command"
		}
		return node.BadInput{Err: fmt.Errorf("engine: the node file says %s, but %s was interrupted on %s; %s", t.Engine, what, info.Name, remedy)}
	}
	if current.Engine == t.Engine {
		return nil
	}
	return node.BadInput{Err: fmt.Errorf("engine: this node runs on %s and cannot be moved to another engine; set `engine: %s`", current.Engine, current.Engine)}
}
