package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/configs/report"
)

// layer is one source of a config file's content.
type layer struct {
	text
	template bool // it is executed
}

// layers reads the sources of a config file, lowest first: the file itself, then
// the overrides that exist.
func (r *Renderer) layers(service string, f File, all *report.Problems) []layer {
	bad := func(format string, args ...any) {
		all.Addf(report.Place{}, f.Where, format, args...)
	}
	if f.Format != "ini" && f.Format != "text" && f.Format != "" {
		bad("format is %q; expected ini or text", f.Format)
	}
	base := layer{text: text{key: f.Where, service: service, oneLine: f.Format == "ini"}, template: true}
	base.file, base.body = f.Where+".content", f.Content
	if f.Template != "" {
		file, body, err := r.template(f.Template)
		if err != nil {
			bad("%w", err)
		}
		base.file, base.body = file, string(body)
	}
	layers := []layer{base}
	for _, pattern := range f.Overrides {
		name := strings.ReplaceAll(pattern, "{service}", service)
		r.markNamed(name)
		name = path.Clean(strings.ReplaceAll(name, "{host}", r.in.Host))
		if !inside(name) {
			bad("override %q is outside the overrides directory; expected a path below it", pattern)
			continue
		}
		if r.in.Overrides == "" {
			continue
		}
		file := filepath.Join(r.in.Overrides, filepath.FromSlash(name))
		body, err := r.in.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			bad("%w", readError("override", file, err))
			continue
		}
		over := layer{text: base.text, template: isTemplate(file)}
		over.file, over.body = file, string(body)
		layers = append(layers, over)
	}
	if f.Format != "ini" && len(layers) > 1 {
		layers = layers[len(layers)-1:]
	}
	return layers
}

// isTemplate reports whether an override is executed as a template: .conf and
// .ini files are. Others, such as YAML policies, may contain braces that mean
// something else.
func isTemplate(file string) bool {
	ext := filepath.Ext(file)
	return ext == ".conf" || ext == ".ini"
}

// template returns the text of a template and its name in errors.
func (r *Renderer) template(name string) (file string, body []byte, err error) {
	if !inside(name) {
		return "", nil, fmt.Errorf("template %q is outside the templates directory; expected a path below it", name)
	}
	if r.in.Templates != "" {
		file = filepath.Join(r.in.Templates, filepath.FromSlash(name))
		body, err = r.in.ReadFile(file)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			if err != nil {
				err = readError("template", file, err)
			}
			return file, body, err
		}
		if _, err := os.Stat(file + ".tmpl"); err == nil { // it is meant to replace the built-in one, whose source has such a name
			return "", nil, fmt.Errorf("%s.tmpl is not used; rename it to %s", file, path.Base(file))
		}
	}
	body, err = builtin(name)
	if err != nil {
		where := ""
		if r.in.Templates != "" {
			where = " and not in " + r.in.Templates
		}
		return "", nil, fmt.Errorf("there is no template %q, not built in%s%s", name, where, report.DidYouMean(name, Templates()))
	}
	return "built-in template " + name, body, nil
}

func readError(what, file string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s %s does not exist; create it, or correct the path", what, file)
	}
	return fmt.Errorf("read %s: %w", what, err)
}

// markNamed records that a config file names an override.
func (r *Renderer) markNamed(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named[path.Clean(strings.ReplaceAll(name, "{host}", r.in.Host))] = true
	if strings.Contains(name, "{host}") {
		r.anyHost[path.Clean(strings.ReplaceAll(name, "{host}", "*"))] = true
	}
}

// markUsed records what a template refers to.
func (r *Renderer) markUsed(refs references) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range refs.vars {
		r.usedVars[name] = true
	}
	r.allVars = r.allVars || refs.allVars
}
