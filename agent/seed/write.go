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

// WriteImage writes the seed as an ISO image to path: all of it, or nothing. It
// holds secrets and is for its owner alone.
func (s *Seed) WriteImage(path string) (size int, err error) {
	image, err := s.Image()
	if err != nil {
		return 0, err
	}
	return len(image), durable.WriteFile(path, image, 0o600)
}

// WriteDir writes the seed as a directory. It is made beside its place and then
// moved there; what is there before has to be a seed.
func (s *Seed) WriteDir(path string) error {
	if err := replaceable(path); err != nil {
		return err
	}
	path = filepath.Clean(path)
	made, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(made) }() // what is left of a failure
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
		_ = os.Rename(old, path) // it was there
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// tops are what stands at the top of a seed.
var tops = []string{"meta-data", "user-data", "network-config", "vendor-data", "openstack"}

// replaceable keeps a slip of the hand from replacing a directory that is no
// seed.
func replaceable(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(tops, e.Name()) {
			return fmt.Errorf("%s holds %s, which is of no seed, and is not replaced; write to another directory", path, e.Name())
		}
	}
	return nil
}
