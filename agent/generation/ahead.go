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
)

// Ahead says, by id, which images were pulled ahead of an upgrade: no generation
// names them yet, so that nothing else keeps them.
type Ahead struct {
	Images []string `json:"images,omitempty"` // that an upgrade is to use
	Left   []string `json:"left,omitempty"`   // that a later pull replaced: they go unless a generation has them
}

// aheadRecord is the file ahead.json.
type aheadRecord struct {
	Format int `json:"format"`
	Ahead
}

// Next is what counts after another pull: what it does not name is left.
func (a Ahead) Next(images []string) Ahead {
	next := Ahead{Images: unique(images)}
	for _, id := range unique(slices.Concat(a.Left, a.Images)) {
		if !slices.Contains(next.Images, id) {
			next.Left = append(next.Left, id)
		}
	}
	return next
}

// Used is what counts once a generation runs: it keeps its images itself.
func (a Ahead) Used(by Generation) Ahead {
	a.Images = slices.DeleteFunc(slices.Clone(a.Images), func(id string) bool {
		return slices.ContainsFunc(by.Services, func(s Service) bool { return s.Image.ID == id })
	})
	return a
}

func unique(ids []string) []string { return slices.Compact(slices.Sorted(slices.Values(ids))) }

func (s Store) ahead() string { return filepath.Join(s.Dir, "ahead.json") }

// Ahead reads which images were pulled ahead.
func (s Store) Ahead() (Ahead, error) {
	var a aheadRecord
	data, err := os.ReadFile(s.ahead())
	if errors.Is(err, fs.ErrNotExist) {
		return Ahead{}, nil
	}
	if err == nil {
		err = format.Decode(s.ahead(), data, Format, &a)
	}
	if err != nil {
		return Ahead{}, fmt.Errorf("read which images were pulled ahead: %w; remove %s: their next pull notes them again", err, s.ahead())
	}
	return a.Ahead, nil
}

// SetAhead writes which images were pulled ahead, if that is news.
func (s Store) SetAhead(a Ahead) error {
	before, err := s.Ahead()
	if err == nil && slices.Equal(before.Images, a.Images) && slices.Equal(before.Left, a.Left) {
		return nil
	}
	if len(a.Images)+len(a.Left) == 0 {
		if err := os.Remove(s.ahead()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget which images were pulled ahead: %w", err)
		}
		return durable.SyncDir(s.Dir)
	}
	data, err := json.Marshal(aheadRecord{Format, a})
	if err != nil {
		return err
	}
	return durable.WriteFile(s.ahead(), append(data, '\n'), 0o600)
}
