package view

import "github.com/kollet/kollet/agent/seed"

// Seed shows a seed that was written.
type Seed struct {
	Path   string     `json:"path"`
	Format string     `json:"format"`
	Label  string     `json:"label"`
	Size   int        `json:"size,omitempty"` // of the image
	Files  []SeedFile `json:"files"`
}

// SeedFile is one of its files.
type SeedFile struct {
	Path string `json:"path"`
	Size int    `json:"size"`
}

// NewSeed describes a seed; size is that of its image, 0 if it is a directory.
func NewSeed(s *seed.Seed, path string, imageSize int) Seed {
	v := Seed{Path: path, Format: string(s.Format), Label: s.Format.Label(), Size: imageSize}
	for _, name := range s.Paths() {
		v.Files = append(v.Files, SeedFile{name, len(s.Files[name])})
	}
	return v
}

func (s Seed) text(t *text) {
	if s.Size > 0 {
		t.line("wrote %s: %s, label %s, %s", s.Path, s.Format, s.Label, size(s.Size))
	} else {
		t.line("wrote the directory %s: %s", s.Path, s.Format)
	}
	t.line("")
	var rows [][]string
	for _, f := range s.Files {
		rows = append(rows, []string{f.Path, size(f.Size)})
	}
	t.table([]string{"FILE", "SIZE"}, rows, nil)
}
