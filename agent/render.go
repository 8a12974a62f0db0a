package agent

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
)

// Render writes the files of a generation to a directory, with one folder per
// service, and changes nothing else: of what an earlier run wrote there, links that
// are copied as links are not followed. The files contain secrets.
func (a *Agent) Render(opts target.Options, dir string) ([]string, error) {
	opts.Elsewhere = true
	t, err := target.Read(a.node, opts, "render")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, s := range t.Services {
		written, err := render(filepath.Join(dir, s.Name), s.Files, t.Files[s.Name])
		paths = append(paths, written...)
		if err != nil {
			return paths, fmt.Errorf("render %s: %w", s.Name, err)
		}
	}
	return paths, nil
}

// render writes the files of a service, and returns their paths.
func render(dir string, files []generation.File, contents []generation.Rendered) ([]string, error) {
	if len(files) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var paths []string
	for i, f := range files {
		path := filepath.Join(dir, f.Dest)
		if err := write(root, strings.TrimPrefix(f.Dest, "/"), contents[i]); err != nil {
			return paths, fmt.Errorf("%s: %w; if something was there before, give an empty directory", path, node.WithoutPath(err))
		}
		if !f.Directory {
			paths = append(paths, path)
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

func write(root *os.Root, name string, f generation.Rendered) error {
	if err := root.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if info, err := root.Lstat(name); err == nil && (info.Mode().Type() == fs.ModeSymlink || f.Link != "" && !info.IsDir()) { // of an earlier run
		if err := root.Remove(name); err != nil {
			return err
		}
	}
	switch {
	case f.Directory:
		return root.MkdirAll(name, 0o700)
	case f.Link != "":
		return root.Symlink(f.Link, name)
	}
	return root.WriteFile(name, f.Content, 0o600)
}
