package generation

import (
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/kollet/kollet/test/needs"
)

// A directory is written with what is in it, and read again to be rendered the same.
func TestDirectories(t *testing.T) {
	needs.Root(t)
	then := time.Unix(1700000000, 0)
	keep := func(mode uint32) *Properties { return &Properties{Mode: mode, UID: 42436, GID: 42400, Time: then} }
	text, key := []byte("text"), NewKey()
	rendered := []Rendered{
		{Name: "00-a", Directory: true},
		{Name: "00-a/f", Content: text, Public: text},
		{Name: "00-a/none", Directory: true},
		{Name: "01-b", Directory: true, Keep: keep(0o2751)},
		{Name: "01-b/f", Content: text, Public: text, Keep: keep(0o4644)},
		{Name: "01-b/link", Link: "/gone", Keep: &Properties{Mode: 0o777, UID: 42436, GID: 42400}},
	}
	var files []File
	for _, r := range rendered {
		f := File{Name: r.Name, Directory: r.Directory, Link: r.Link, SHA256: key.Digest(r.Content)}
		if r.Keep != nil {
			f.Preserve, f.Owner, f.Perm = true, r.Keep.Owner(), r.Keep.Perm()
		}
		files = append(files, f)
	}
	s := store(t)
	if err := s.Write(Generation{Number: 3, Services: []Service{{Name: "nova", Files: files}}}, map[string][]Rendered{"nova": rendered}, nothing); err != nil {
		t.Fatal(err)
	}
	modes := map[string]fs.FileMode{
		"00-a": fs.ModeDir | 0o500, "00-a/f": 0o400, "00-a/none": fs.ModeDir | 0o500,
		"01-b": fs.ModeDir | fs.ModeSetgid | 0o751, "01-b/f": fs.ModeSetuid | 0o644, "01-b/link": fs.ModeSymlink | 0o777,
	}
	config := s.Config(3, "nova")
	for i, f := range files {
		info, err := os.Lstat(filepath.Join(config, f.Name))
		if err != nil || info.Mode() != modes[f.Name] {
			t.Errorf("%s: %v, %v; want %v", f.Name, info, err, modes[f.Name])
		}
		got, changed, err := s.Recall(key, 3, "nova", f)
		if got.Keep != nil && f.Link != "" {
			got.Keep.Time = time.Time{} // a link's own
		}
		if err != nil || changed || !reflect.DeepEqual(got, rendered[i]) {
			t.Errorf("%s: read again %+v, %v, %v; want %+v", f.Name, got, changed, err, rendered[i])
		}
	}
	for name, change := range map[string]func(path string) error{
		"00-a/f":    func(path string) error { return os.WriteFile(path, []byte("x"), 0o400) },
		"00-a/none": func(path string) error { return os.Remove(path) },
		"01-b/f":    func(path string) error { return os.Chmod(path, 0o644) },
		"01-b":      func(path string) error { return os.Chown(path, 0, 0) },
		"01-b/link": func(path string) error { _ = os.Remove(path); return os.Symlink("/etc", path) },
	} {
		if err := change(filepath.Join(config, name)); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if f.Name != name {
				continue
			}
			if _, changed, err := s.Recall(key, 3, "nova", f); !changed && err == nil {
				t.Errorf("%s: a change was not noticed", name)
			}
		}
	}
	if err := s.Remove(t.Context(), 3); err != nil {
		t.Error(err)
	}
}
