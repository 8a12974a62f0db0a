// Package configs renders a node's config files: it executes templates, merges
// the operator's overrides into the result, and keeps secrets out of everything
// except the rendered files. It also contains the built-in profiles. It does not
// know engines or generations.
package configs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/kollet/kollet/configs/ini"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/configs/report"
)

// Inputs is what templates may use, and the directories of the operator's files.
type Inputs struct {
	Host      string            // name of this node, as {host} in override paths and .host in templates
	Vars      map[string]any    // .vars; a nil value counts as not set
	OwnVars   []string          // the Vars that the operator set, for Unused
	KnownVars []string          // those that need not be used: the profile has them for services that this node may not have
	Secrets   map[string]string // secret "NAME"
	Instance  map[string]any    // .instance: cloud-init's instance data; may be empty
	Templates string            // directory of the operator's templates; need not exist
	Overrides string            // directory of the operator's overrides; need not exist

	ReadFile func(path string) ([]byte, error) // reads a template or an override; nil: os.ReadFile
	Place    func(key string) report.Place     // of a key in the node file; nil: unknown
}

// File is one config file to render, from its Template if that is set, else from Content.
type File struct {
	Where     string // key in the node file, for errors: services.nova-compute.config[0]
	Template  string // name of a built-in template, or of a file below Inputs.Templates, which wins
	Content   string // a template, inline
	Name      string // file name in the generation, unique within its service
	Format    string // "ini": overrides are merged key by key; "text": the last override replaces the whole file
	Overrides []string
	Optional  bool // omitted if it renders to white space
}

// Rendered is a rendered config file.
type Rendered struct {
	Content []byte
	// Public is the same file for people to read, as in diffs: secrets are
	// replaced by placeholders, and values of keys for passwords are masked. Two
	// files with the same Public may differ in secrets.
	Public  []byte
	Omitted bool // the file is Optional and rendered to white space
}

// Renderer renders the config files of one node. It is safe for concurrent use.
type Renderer struct {
	in       Inputs
	redactor *redact.Redactor

	mu       sync.Mutex
	named    map[string]bool // override paths that a file names
	anyHost  map[string]bool // the same with * for {host}, for overrides of other nodes
	usedVars map[string]bool
	allVars  bool // a template uses .vars as a whole
}

// New returns a renderer, or everything that is wrong with the inputs.
func New(in Inputs) (*Renderer, error) {
	var all report.Problems
	if in.Host == "" || strings.ContainsAny(in.Host, "/\\\x00") || in.Host == "." || in.Host == ".." {
		all.Add(fmt.Errorf("%q is not a host name: templates and override paths need one; set this machine's host name, or give one with --host", in.Host))
	}
	for _, dir := range []string{in.Templates, in.Overrides} {
		if dir == "" {
			continue
		}
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			all.Add(fmt.Errorf("%s is a file; expected a directory", dir))
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			all.Add(fmt.Errorf("read the operator's configuration: %w", err))
		}
	}
	if all.Len() > 0 {
		return nil, all.Err()
	}
	if in.ReadFile == nil {
		in.ReadFile = os.ReadFile
	}
	in.Vars = withoutNil(in.Vars)
	in.Instance = withoutNil(in.Instance)
	return &Renderer{
		in:       in,
		redactor: redact.New(in.Secrets),
		named:    map[string]bool{},
		anyHost:  map[string]bool{},
		usedVars: map[string]bool{},
	}, nil
}

// Redactor returns a redactor that knows Inputs.Secrets and what the templates
// that were rendered so far made of them.
func (r *Renderer) Redactor() *redact.Redactor { return r.redactor }

// withoutNil returns a copy of a map without nil values, also in nested maps. The
// template engine would write "<no value>" for them.
func withoutNil(m map[string]any) map[string]any {
	clean := make(map[string]any, len(m))
	for name, value := range m {
		switch value := value.(type) {
		case nil:
		case map[string]any:
			clean[name] = withoutNil(value)
		default:
			clean[name] = value
		}
	}
	return clean
}

// Render renders one config file of a service. The error contains everything that
// is wrong with it, one problem per line, and no secrets.
func (r *Renderer) Render(service string, f File) (Rendered, error) {
	var all report.Problems
	layers := r.layers(service, f, &all)
	if all.Len() > 0 {
		return Rendered{}, all.Err()
	}
	content := r.build(layers, f, private, &all)
	if all.Len() > 0 {
		return Rendered{}, all.Err()
	}
	out := Rendered{Content: []byte(content)}
	if f.Optional && strings.TrimSpace(content) == "" {
		return Rendered{Omitted: true}, nil
	}
	out.Public = []byte(r.public(layers, f, len(content)))
	return out, nil
}

// Expand expands a template in a container's settings, such as a value of its
// environment. where is its key in the node file. Using a secret is an error.
func (r *Renderer) Expand(service, where, body string) (string, error) {
	var all report.Problems
	out, errs := r.execute(text{file: where, key: where, service: service, body: body}, spec)
	for _, err := range errs {
		if p, ok := errors.AsType[report.Problem](err); ok && !strings.Contains(body, "\n") {
			p.Place = report.Place{} // the key is enough
			err = p
		}
		all.Add(err)
	}
	if all.Len() > 0 {
		return "", all.Err()
	}
	return out, nil
}

// build renders the layers and merges them.
func (r *Renderer) build(layers []layer, f File, m mode, all *report.Problems) string {
	var merged ini.File
	var last string
	for _, l := range layers {
		body := l.body
		if l.template {
			var errs []error
			body, errs = r.execute(l.text, m)
			if len(errs) > 0 {
				all.Add(errs...)
				continue
			}
		}
		last = body
		if f.Format != "ini" {
			continue
		}
		parsed, err := ini.Parse([]byte(body))
		if err != nil {
			r.addINI(l, err, all)
			continue
		}
		merged.Merge(parsed)
	}
	if f.Format != "ini" {
		return last
	}
	if m == public {
		maskINI(&merged)
	}
	return string(merged.Bytes())
}

func (r *Renderer) addINI(l layer, err error, all *report.Problems) {
	lines := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		lines = joined.Unwrap()
	}
	for _, err := range lines {
		p := report.Problem{Place: report.Place{File: l.file}, Key: l.key, Text: err.Error()}
		if at, ok := errors.AsType[*ini.Error](err); ok {
			p.Text = at.Text
			if l.template && strings.Contains(l.body, "{{") {
				p.File += " as rendered"
			}
			p.Line = at.Line
		}
		p.Text = r.redactor.Text(p.Text)
		all.Add(p)
	}
}

// Withheld is what people are shown of a file that may hold anything.
func Withheld(size int) []byte { return fmt.Appendf(nil, "<%d bytes, not shown>\n", size) }

// public renders a file for people to read. It never fails: a file that is not
// text, or cannot be rendered without the values of secrets, is not shown.
func (r *Renderer) public(layers []layer, f File, size int) string {
	withheld := string(Withheld(size))
	var failed report.Problems
	shown := r.build(layers, f, public, &failed)
	if failed.Len() > 0 || !utf8.ValidString(shown) {
		return withheld
	}
	if f.Format != "ini" {
		shown = redact.Mask(shown)
	}
	return r.redactor.Text(shown)
}

// maskINI masks values that look like passwords in an INI file.
func maskINI(f *ini.File) {
	for _, section := range f.Sections {
		for _, key := range section.Keys {
			for i, value := range key.Values {
				key.Values[i] = redact.MaskValue(key.Name, value)
			}
		}
	}
}

// inside reports whether a path stays below the directory that it is joined to.
func inside(path string) bool { return path != "" && filepath.IsLocal(filepath.FromSlash(path)) }
