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

// Unused returns an error for everything that the operator wrote and nothing
// rendered so far looked at: fragments that no file names, and variables that
// no template, fragment or string uses. Call it when all is rendered. A
// variable that some built-in template knows is left alone, because it may
// belong to a service that this node has not; so are hidden files, and
// fragments for another host.
func (r *Renderer) Unused() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(r.unusedFragments(), r.unusedVars()...)
}

func (r *Renderer) unusedFragments() []error {
	if r.in.Overrides == "" {
		return nil
	}
	root, err := filepath.EvalSymlinks(r.in.Overrides)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return []error{fmt.Errorf("look for unused fragments: %w", err)}
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
			return nil // also a link to a directory, which holds no fragment's name
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if p := r.unusedFragment(filepath.ToSlash(name)); p != nil {
			found = append(found, p)
		}
		return nil
	})
	if err != nil {
		found = append(found, fmt.Errorf("look for unused fragments: %w", err))
	}
	return found
}

// unusedFragment returns what is wrong with a fragment's place; nil if nothing.
func (r *Renderer) unusedFragment(name string) error {
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
			return report.Problem{Place: report.Place{File: file}, Text: fmt.Sprintf("is for a host %q, and this one is called %q; rename the directory if this one is meant", other, r.in.Host)}
		}
		return nil
	}
	text := "no file of any service uses this fragment"
	if best := report.Nearest(name, sorted(r.named)); best != "" {
		text += "; did you mean " + best + "?"
	} else if len(r.named) > 0 {
		text += "; expected one of " + strings.Join(sorted(r.named), ", ")
	}
	return report.Problem{Place: report.Place{File: file}, Text: text}
}

// hostOf returns which host a fragment is for by a pattern with * for the host.
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

func (r *Renderer) unusedVars() []error {
	if r.allVars {
		return nil
	}
	if !slices.ContainsFunc(r.in.OwnVars, func(name string) bool { return !r.usedVars[name] }) {
		return nil // as usual; else every built-in template has to be parsed
	}
	known := builtinVars()
	for name := range r.usedVars {
		known[name] = true
	}
	var found []error
	for _, name := range r.in.OwnVars {
		if !known[name] {
			found = append(found, report.Problem{Key: "vars." + name, Text: "nothing uses this variable" + report.DidYouMean(name, sorted(known)) + "; correct its name, or remove it"})
		}
	}
	return found
}

// builtinVars returns the variables that built-in templates use.
func builtinVars() map[string]bool {
	x := &execution{}
	known := map[string]bool{}
	for _, name := range Templates() {
		body, _ := builtin(name) // listed, so embedded
		t := template.Must(template.New("t").Funcs(x.funcs()).Parse(string(body)))
		for v := range usesOf(t, string(body)).vars {
			known[v] = true
		}
	}
	return known
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
