package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/target"
)

// Render writes the files of a generation to a directory, with one folder per
// service, and changes nothing else. They contain secrets.
func (a *Agent) Render(opts target.Options, dir string) ([]string, error) {
	opts.Elsewhere = true
	t, err := target.Read(a.node, opts, "render")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, s := range t.Services {
		for i, f := range s.Files {
			path := filepath.Join(dir, s.Name, f.Dest)
			if err := write(path, t.Files[s.Name][i]); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			if !f.Directory {
				paths = append(paths, path)
			}
		}
	}
	return paths, nil
}

// Explain says where the content of config files comes from, and changes nothing. file is a
// path in a container, or its last part.
func (a *Agent) Explain(opts target.Options, file string) ([]target.Explained, error) {
	opts.Elsewhere = true
	return target.Explain(a.node, opts, file)
}

func write(path string, f generation.Rendered) error {
	if f.Directory {
		return os.MkdirAll(path, 0o700)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if f.Link == "" {
		return os.WriteFile(path, f.Content, 0o600)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier run
		return err
	}
	return os.Symlink(f.Link, path)
}
