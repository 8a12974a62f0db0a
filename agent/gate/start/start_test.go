package start

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/kollet/kollet/test/needs"
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

// beside puts a program where Install finds it if none is built in, which is
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

func TestInstall(t *testing.T) {
	needs.Root(t)
	beside(t)
	dir := filepath.Join(t.TempDir(), "bin")
	path, err := Install(dir)
	if err != nil {
		t.Fatal(err)
	}
	if base := filepath.Base(path); filepath.Dir(path) != dir || !strings.HasPrefix(base, "kollet-start-") || len(base) != len("kollet-start-")+12 {
		t.Errorf("path is %s", path)
	}
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if first.Mode() != 0o555 {
		t.Errorf("mode is %v", first.Mode())
	}

	// Again: the same file, because running containers have it mounted.
	if again, err := Install(dir); again != path || err != nil {
		t.Errorf("second time: %s, %v", again, err)
	}
	if second, err := os.Stat(path); err != nil || !os.SameFile(first, second) {
		t.Errorf("second time replaced the file (%v)", err)
	}

	// A damaged one is put right.
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("the damaged file stayed (%v)", err)
	}
	if rest, _ := filepath.Glob(filepath.Join(dir, "*")); len(rest) != 1 {
		t.Errorf("left behind: %v", rest)
	}
}
