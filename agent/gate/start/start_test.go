package start

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFind(t *testing.T) {
	beside := t.TempDir()
	if err := os.WriteFile(filepath.Join(beside, "kollet-start"), []byte("beside"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, exe string
		built     fstest.MapFS
		want, err string
	}{
		{"built in", filepath.Join(beside, "kollet"), fstest.MapFS{"kollet-start": {Data: []byte("built in")}, "kollet-start.md": {}}, "built in", ""},
		{"beside", filepath.Join(beside, "kollet"), fstest.MapFS{"kollet-start.md": {}}, "beside", ""},
		{"nowhere", filepath.Join(t.TempDir(), "kollet"), fstest.MapFS{"kollet-start.md": {}}, "", "build kollet with make"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := find(tc.built, func() (string, error) { return tc.exe, nil })
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if string(got) != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// beside puts a program where Write finds it if none is built in, which is
// beside the test's own binary in its temporary directory.
func beside(t *testing.T) {
	t.Helper()
	if _, err := built.Open(name); err == nil {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
}

func TestWrite(t *testing.T) {
	beside(t)
	path := filepath.Join(t.TempDir(), "program")
	for range 2 { // the second time over what is there
		if err := Write(path); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o555 {
		t.Errorf("mode is %v, %v", info.Mode(), err)
	}
	if rest, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(rest) != 1 {
		t.Errorf("left behind: %v", rest)
	}
}

func TestCheck(t *testing.T) {
	beside(t)
	for _, c := range []struct {
		name   string
		damage func(path string) error
		want   string // end of the error
	}{
		{"whole", func(string) error { return nil }, ""},
		{"lost", os.Remove, "no such file or directory"},
		{"empty", func(path string) error { return os.Truncate(path, 0) }, "is damaged"},
		{"only its header", func(path string) error { return os.Truncate(path, 20) }, "is damaged"},
		{"cut off", func(path string) error { return os.Truncate(path, 10<<10) }, "is damaged"},
		{"overwritten", func(path string) error { return os.WriteFile(path, []byte("#!/bin/sh\n"), 0) }, "is damaged"},
		{"not executable", func(path string) error { return os.Chmod(path, 0o600) }, "is not an executable file"},
		{"a directory", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "is not an executable file"},
		{"a link", func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/bin/true", path)) }, "is not an executable file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "program")
			program, err := os.ReadFile("/bin/true") // kollet-start may not have been built
			if err == nil {
				err = errors.Join(os.WriteFile(path, program, 0o755), c.damage(path))
			}
			if err != nil {
				t.Fatal(err)
			}
			err = Check(path)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
