package generation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/wary"
)

// Prefetched lists, by id, images that kollet fetched and that no generation may name:
// those that were pulled before an upgrade, which nothing else keeps, and those of upgrades
// that failed, which nothing else removes.
type Prefetched struct {
	Images []string `json:"images,omitempty"` // for the next upgrade
	Left   []string `json:"left,omitempty"`   // for an upgrade, or replaced by a later pull: removed unless a generation uses them
}

// prefetchedRecord is the file prefetched.json.
type prefetchedRecord struct {
	Format int `json:"format"`
	Prefetched
}

// Next returns the lists after another pull.
func (a Prefetched) Next(images []string) Prefetched {
	next := Prefetched{Images: unique(images)}
	for _, id := range unique(slices.Concat(a.Left, a.Images)) {
		if !slices.Contains(next.Images, id) {
			next.Left = append(next.Left, id)
		}
	}
	return next
}

// Fetched returns the lists after an image arrived, which it may have done for an upgrade
// that fails.
func (a Prefetched) Fetched(id string) Prefetched {
	if !slices.Contains(a.Images, id) {
		a.Left = unique(append(slices.Clone(a.Left), id))
	}
	return a
}

// Used returns the lists once a generation runs, which keeps its images itself.
func (a Prefetched) Used(by Generation) Prefetched {
	a.Images = slices.DeleteFunc(slices.Clone(a.Images), func(id string) bool {
		return slices.ContainsFunc(by.Services, func(s Service) bool { return s.Image.ID == id })
	})
	return a
}

func unique(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

func (s Store) prefetched() string { return filepath.Join(s.Dir, "prefetched.json") }

// Prefetched reads which images were prefetched.
func (s Store) Prefetched() (Prefetched, error) {
	var a prefetchedRecord
	data, err := wary.ReadFile(s.prefetched(), mostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return Prefetched{}, nil
	}
	if err == nil {
		err = format.Decode(s.prefetched(), data, Format, &a)
	}
	if err != nil {
		return Prefetched{}, fmt.Errorf("read which images were prefetched: %w; remove %s; the next pull records them again", err, s.prefetched())
	}
	return a.Prefetched, nil
}

// SetPrefetched records which images were prefetched, if that changed.
func (s Store) SetPrefetched(a Prefetched) error {
	before, err := s.Prefetched()
	if err == nil && slices.Equal(before.Images, a.Images) && slices.Equal(before.Left, a.Left) {
		return nil
	}
	if len(a.Images)+len(a.Left) == 0 {
		if err := os.Remove(s.prefetched()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record of prefetched images: %w", err)
		}
		return durable.SyncDir(s.Dir)
	}
	data, err := json.Marshal(prefetchedRecord{Format, a})
	if err != nil {
		return err
	}
	return durable.WriteFile(s.prefetched(), append(data, '\n'), 0o600)
}
