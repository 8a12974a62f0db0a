package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kollet/kollet/agent/target"
)

// Render writes the files of a generation to a directory, with one folder per
// service, and changes nothing else. They contain secrets.
func (a *Agent) Render(opts target.Options, dir string) ([]string, error) {
	t, err := target.Read(a.node, opts, "render")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, s := range t.Services {
		for i, f := range s.Files {
			to := filepath.Join(dir, s.Name, f.Dest)
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			if err := os.WriteFile(to, t.Files[s.Name][i].Content, 0o600); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			paths = append(paths, to)
		}
	}
	return paths, nil
}

// Explain says where the content of config files comes from, and changes nothing. file is a
// path in a container, or its last part.
func (a *Agent) Explain(opts target.Options, file string) ([]target.Explained, error) {
	return target.Explain(a.node, opts, file)
}
