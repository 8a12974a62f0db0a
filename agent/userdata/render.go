package userdata

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
)

// dryRun renders what the node will render, to find problems before a server
// boots. It skips what depends on the server's instance data or on files that only
// the node has.
type dryRun struct {
	*configs.Renderer
	node     Node
	problems *report.Problems
	partial  bool // something was skipped
}

// dryRun renders every config file and expands every template of the node's
// services.
func (n Node) dryRun(file *nodefile.Node, problems *report.Problems) {
	in := configs.Inputs{
		Host: cmp.Or(n.Host, "node"), Vars: file.Vars, OwnVars: file.OwnVars, KnownVars: file.KnownVars,
		Secrets: map[string]string{}, Instance: map[string]any{}, Overrides: n.overrides(), Place: file.Place,
	}
	for name := range file.Secrets {
		in.Secrets[name] = "?"
	}
	if n.Tree != "" {
		in.Templates = filepath.Join(n.Tree, path.Base(node.TemplatesDir))
	}
	renderer, err := configs.New(in)
	if err != nil {
		problems.Add(err)
		return
	}
	before := problems.Len()
	r := dryRun{Renderer: renderer, node: n, problems: problems, partial: len(n.Files) > 0}
	for _, name := range file.Order() {
		r.service(name, file)
	}
	if problems.Len() == before && !r.partial {
		problems.Add(renderer.Unused()...)
	}
}

// overrides returns the local directory that is copied to node.OverridesDir.
func (n Node) overrides() string {
	if n.Overrides == "" && n.Tree != "" {
		return filepath.Join(n.Tree, path.Base(node.OverridesDir))
	}
	return n.Overrides
}

func (r *dryRun) service(name string, node *nodefile.Node) {
	s, key := node.Services[name], "services."+name
	for i, f := range s.Config {
		if f.Source != "" {
			_, err := r.Expand(name, f.Key+".source", f.Source)
			r.add(f.Place, err)
			continue
		}
		if r.notHere(f.Template) {
			continue
		}
		dest, err := r.Expand(name, f.Key+".dest", f.Dest)
		r.add(f.Place, err)
		in := configs.File{
			Where: f.Key, Name: fmt.Sprintf("%02d-%s", i, path.Base(dest)), Template: f.Template,
			Format: f.Format, Overrides: f.Overrides, Optional: f.Optional,
		}
		if f.Content != nil {
			in.Content = *f.Content
		}
		_, err = r.Render(name, in)
		r.add(f.Place, err)
	}
	expand := func(key string, texts ...string) {
		for _, text := range texts {
			_, err := r.Expand(name, key, text)
			r.add(node.Place(key), err)
		}
	}
	expand(key+".entrypoint", s.Entrypoint...)
	expand(key+".command", s.Command...)
	expand(key+".warmup", s.Warmup...)
	for _, variable := range slices.Sorted(maps.Keys(s.Environment)) {
		expand(key+".environment."+variable, s.Environment[variable])
	}
	for _, m := range s.Volumes {
		expand(m.Key+".source", m.Source)
	}
	if g := s.Guests; g != nil {
		expand(key+".guests.list", g.List...)
		expand(key+".guests.version", g.Version...)
		expand(key+".guests.jobs", g.Jobs...)
		expand(key+".guests.canary", slices.Concat(g.Canary.Start, g.Canary.Output, []string{g.Canary.Expect}, g.Canary.Stop)...)
	}
	expand(key+".version", s.Version...)
	expand(key+".engine_healthcheck.test", s.EngineHealthcheck.Test...)
	for _, p := range slices.Concat(s.Healthcheck, s.Requires) {
		expand(p.Key, append([]string{p.TCP, p.Unix, p.HTTP, p.AMQP, p.OVSDB, p.CAFile}, p.Exec...)...)
	}
}

// notHere reports whether only the node has a template.
func (r *dryRun) notHere(template string) bool {
	file := path.Join(node.TemplatesDir, template)
	given := func(f File) bool { return f.Path == file }
	if template == "" || slices.Contains(configs.Templates(), template) {
		return false
	}
	if slices.ContainsFunc(r.node.Files, given) || r.node.onImage(file) {
		r.partial = true
		return true
	}
	return false
}

// add adds problems, except those about instance data, which only the server has.
func (r *dryRun) add(at report.Place, err error) {
	if err == nil {
		return
	}
	for _, one := range split(err) {
		if errors.Is(one, configs.ErrInstanceData) {
			r.partial = true
			continue
		}
		r.problems.Add(report.Wrap(at, one))
	}
}
