package target

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/configs/report"
)

// render renders the service's files.
func (b *builder) render(s *generation.Service) []generation.Rendered {
	var rendered []generation.Rendered
	written := map[string]string{} // path in the container: key of the entry that writes it
	for i, f := range b.from.Config {
		files, contents, err := b.renderOne(fmt.Sprintf("%02d-", i), f)
		if err == nil {
			err = overwritten(written, f.Key, files)
		}
		if err != nil {
			b.problems.Add(report.Wrap(f.Place, err))
			continue
		}
		s.Files, rendered = append(s.Files, files...), append(rendered, contents...)
	}
	return rendered
}

// renderOne renders an entry of config. prefix begins the names of its files in the
// generation.
func (b *builder) renderOne(prefix string, f nodefile.ConfigFile) ([]generation.File, []generation.Rendered, error) {
	f, omitted, err := b.expandPaths(f)
	if err != nil || omitted {
		return nil, nil, err
	}
	if f.Source != "" {
		s := source{from: f, node: b.node, key: b.key, writable: b.writable, name: prefix}
		if err := s.read(); err != nil {
			return nil, nil, report.Problem{Key: f.Key, Text: err.Error()}
		}
		for i, file := range s.files {
			if b.explains(file.Dest) && !file.Directory {
				b.explained = append(b.explained, Explained{b.name, file.Dest, configs.Explanation{Origin: configs.Origin{File: s.paths[i]}}})
			}
		}
		return s.files, s.rendered, nil
	}
	name := prefix + filepath.Base(f.Dest)
	in := configs.File{Where: f.Key, Name: name, Template: f.Template, Format: f.Format, Overrides: f.Overrides, Optional: f.Optional}
	if f.Content != nil {
		in.Content = *f.Content
	}
	out, err := b.renderer.Render(b.name, in)
	if err != nil || out.Omitted {
		return nil, nil, err
	}
	if len(f.OsloNamespaces) > 0 {
		explain := func() (configs.Explanation, error) { return b.renderer.Explain(b.name, in) }
		b.osloFiles = append(b.osloFiles, OsloFile{b.name, f.Dest, f.OsloNamespaces, explain})
	}
	if b.explains(f.Dest) {
		explanation, err := b.renderer.Explain(b.name, in)
		if err != nil {
			return nil, nil, err
		}
		b.explained = append(b.explained, Explained{b.name, f.Dest, explanation})
	}
	file := generation.File{Name: name, Dest: f.Dest, Owner: f.Owner, Perm: f.Perm, SHA256: b.key.Digest(out.Content)}
	return []generation.File{file}, []generation.Rendered{{Name: name, Content: out.Content, Public: out.Public}}, nil
}

// expandPaths expands the variables in an entry's source and dest. It reports whether the
// entry is omitted because its source is empty.
func (b *builder) expandPaths(f nodefile.ConfigFile) (expanded nodefile.ConfigFile, omitted bool, err error) {
	source, err := b.renderer.Expand(b.name, f.Key+".source", f.Source)
	if err != nil || source == "" && f.Source != "" {
		return f, true, err
	}
	dest, err := b.renderer.Expand(b.name, f.Key+".dest", f.Dest)
	if err != nil {
		return f, false, err
	}
	f, err = f.WithPaths(source, dest)
	return f, false, err
}

// explains reports whether the operator asked where a file comes from.
func (b *builder) explains(dest string) bool {
	return b.explain != "" && (b.explain == dest || b.explain == path.Base(dest))
}

// overwritten returns an error if an entry writes what an earlier one wrote, or removes
// it: one of the two would be lost. It adds what the entry writes.
func overwritten(written map[string]string, key string, files []generation.File) error {
	for _, f := range files {
		if other, twice := written[f.Dest]; twice {
			return report.Problem{Key: key, Text: fmt.Sprintf("%s is written by %s too; remove one", f.Dest, other)}
		}
		written[f.Dest] = key
		if f.Part || !f.Directory || f.Merge {
			continue
		}
		for _, dest := range slices.Sorted(maps.Keys(written)) {
			if strings.HasPrefix(dest, f.Dest+"/") {
				return report.Problem{Key: key, Text: fmt.Sprintf("it replaces the directory %s, and removes %s of %s; put it first, or set merge: true", f.Dest, dest, written[dest])}
			}
		}
	}
	return nil
}
