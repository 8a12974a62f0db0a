package seed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/durable"
)

// WriteImage writes the seed as an ISO image to path, atomically. Only its owner can
// read the file, because it contains secrets.
func (s *Seed) WriteImage(path string) (size int, err error) {
	image, err := s.Image()
	if err != nil {
		return 0, err
	}
	return len(image), durable.WriteFile(path, image, 0o600)
}

// WriteDir writes the seed as a directory. It creates the directory next to path and
// renames it. An existing directory must be a seed.
func (s *Seed) WriteDir(path string) error {
	if err := replaceable(path); err != nil {
		return err
	}
	path = filepath.Clean(path)
	made, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }() // what remains after a failure
	fresh := filepath.Join(made, "new")
	for _, name := range s.Paths() {
		file := filepath.Join(fresh, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := durable.WriteFile(file, s.Files[name], 0o600); err != nil {
			return err
		}
	}
	old := filepath.Join(made, "old")
	if err := os.Rename(path, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		_ = os.Rename(old, path) // restore it
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// topNames are the top-level names in a seed.
var topNames = []string{"meta-data", "user-data", "network-config", "vendor-data", "openstack"}

// replaceable returns an error for a directory that is not a seed, so that a wrong
// path does not remove it.
func replaceable(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(topNames, e.Name()) {
			return fmt.Errorf("%s contains %s, which is not part of a seed; write to another directory", path, e.Name())
		}
	}
	return nil
}
