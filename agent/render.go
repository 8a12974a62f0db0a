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
			path := filepath.Join(dir, s.Name, f.Dest)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			if err := os.WriteFile(path, t.Files[s.Name][i].Content, 0o600); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
