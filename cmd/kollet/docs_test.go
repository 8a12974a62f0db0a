package main

import (
	"bytes"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/cobra/doc"
)

// The manual is made here, and not by kollet itself, which would carry a
// Markdown parser for it.
//
//go:generate go test -run ^TestDocsAreCurrent$ . -update

var update = flag.Bool("update", false, "write the generated docs instead of comparing them")

const docs = "../../docs"

func TestDocsAreCurrent(t *testing.T) {
	want := generated(t)
	if *update {
		write(t, want)
	}
	for path, content := range want {
		have, err := os.ReadFile(filepath.Join(docs, path))
		if err != nil || !bytes.Equal(have, content) {
			t.Errorf("docs/%s is stale; run make man", path)
		}
	}
	for _, dir := range []string{"man", "commands"} {
		entries, err := os.ReadDir(filepath.Join(docs, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if _, ok := want[filepath.Join(dir, e.Name())]; !ok {
				t.Errorf("docs/%s/%s is of no command; run make man", dir, e.Name())
			}
		}
	}
}

func write(t *testing.T, files map[string][]byte) {
	t.Helper()
	for _, dir := range []string{"man", "commands"} {
		if err := os.RemoveAll(filepath.Join(docs, dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(docs, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, content := range files {
		if err := os.WriteFile(filepath.Join(docs, path), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// generated returns every generated page, by its path below docs.
func generated(t *testing.T) map[string][]byte {
	t.Helper()
	root := new(app).root()
	root.DisableAutoGenTag = true // it holds the date
	root.InitDefaultCompletionCmd("")
	dir := t.TempDir()
	for _, sub := range []string{"man", "commands"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := doc.GenMarkdownTree(root, filepath.Join(dir, "commands")); err != nil {
		t.Fatal(err)
	}
	undated := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	err := doc.GenManTreeFromOpts(root, doc.GenManTreeOptions{
		Header:           &doc.GenManHeader{Section: "8", Date: &undated, Source: "kollet", Manual: "kollet manual"},
		Path:             filepath.Join(dir, "man"),
		CommandSeparator: "-",
	})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		files[rel] = bytes.Replace(data, []byte(`"Jan 0001"`), []byte(`""`), 1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
