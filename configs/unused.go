package configs

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/kollet/kollet/configs/report"
)

// Unused returns an error for each override that no config file names, and for
// each of the operator's variables that nothing uses. Call it after everything
// was rendered. It does not report hidden files, overrides for other hosts, and
// variables that a built-in template uses or the profile has, because they may
// belong to a service that this node does not have.
func (r *Renderer) Unused() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(r.unusedOverrides(), r.unusedVars()...)
}

func (r *Renderer) unusedOverrides() []error {
	if r.in.Overrides == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(r.in.Overrides)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return []error{fmt.Errorf("find unused overrides: %w", err)}
	}
	var found []error
	err = filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if file != root && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return nil // a directory, or a link to one
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if p := r.unusedOverride(filepath.ToSlash(name)); p != nil {
			found = append(found, p)
		}
		return nil
	})
	if err != nil {
		found = append(found, fmt.Errorf("find unused overrides: %w", err))
	}
	return found
}

// unusedOverride returns what is wrong with an override's path, or nil.
func (r *Renderer) unusedOverride(name string) error {
	if r.named[name] {
		return nil
	}
	file := filepath.Join(r.in.Overrides, filepath.FromSlash(name))
	for _, pattern := range sorted(r.anyHost) {
		other, ok := hostOf(pattern, name)
		if !ok {
			continue
		}
		short, _, _ := strings.Cut(r.in.Host, ".")
		if otherShort, _, _ := strings.Cut(other, "."); strings.EqualFold(short, otherShort) {
			return report.Problem{Place: report.Place{File: file}, Text: fmt.Sprintf("is for host %q, and this host is %q; rename the directory if it is for this host", other, r.in.Host)}
		}
		return nil
	}
	text := "no service has a config file with this override"
	if best := report.Nearest(name, sorted(r.named)); best != "" {
		text += "; did you mean " + best + "?"
	} else if len(r.named) > 0 {
		text += "; expected one of " + strings.Join(sorted(r.named), ", ")
	}
	return report.Problem{Place: report.Place{File: file}, Text: text}
}

// hostOf returns the host that an override is for. The pattern has * for it.
func hostOf(pattern, name string) (string, bool) {
	if ok, err := path.Match(pattern, name); err != nil || !ok {
		return "", false
	}
	before, after, _ := strings.Cut(pattern, "*")
	host, _, _ := strings.Cut(name[len(before):], "/")
	if !strings.Contains(after, "/") {
		host = strings.TrimSuffix(name[len(before):], after)
	}
	return host, true
}

// mostUnused is how many unused variables are named: a mistake repeats itself, and
// finding what each of very many was meant to be takes minutes.
const mostUnused = 50

func (r *Renderer) unusedVars() []error {
	if r.allVars {
		return nil
	}
	if !slices.ContainsFunc(r.in.OwnVars, func(name string) bool { return !r.usedVars[name] }) {
		return nil // the usual case, which need not parse all built-in templates
	}
	known := builtinVars()
	for _, name := range r.in.KnownVars {
		known[name] = true
	}
	for name := range r.usedVars {
		known[name] = true
	}
	names := sorted(known)
	unused := slices.DeleteFunc(slices.Clone(r.in.OwnVars), func(name string) bool { return known[name] })
	var found []error
	for _, name := range unused[:min(len(unused), mostUnused)] {
		found = append(found, report.Problem{Place: r.placeOf("vars." + name), Key: "vars." + name, Text: "nothing uses this variable" + report.DidYouMean(name, names) + "; correct its name, or remove it"})
	}
	if more := len(unused) - len(found); more > 0 {
		found = append(found, report.Problem{Key: "vars", Text: fmt.Sprintf("nothing uses %d more variables", more)})
	}
	return found
}

func (r *Renderer) placeOf(key string) report.Place {
	if r.in.Place == nil {
		return report.Place{}
	}
	return r.in.Place(key)
}

// builtinVars returns the variables that built-in templates refer to.
func builtinVars() map[string]bool {
	x := &execution{}
	known := map[string]bool{}
	for _, name := range Templates() {
		body, _ := builtin(name) // it is embedded, because Templates lists it
		t := template.Must(template.New("t").Funcs(x.funcs()).Parse(string(body)))
		for v := range referencesOf(t, string(body)).vars {
			known[v] = true
		}
	}
	return known
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
