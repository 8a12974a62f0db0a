package durable_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/durable"
)

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}

func TestWriteFile(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, c := range []struct {
		data string
		mode fs.FileMode
	}{{"one", 0o600}, {"", 0o444}, {"three", 0o755}} {
		if err := durable.WriteFile(path, []byte(c.data), c.mode); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(data) != c.data || info.Mode() != c.mode {
			t.Errorf("got %q, %v, %v, %v", data, info.Mode(), err, serr)
		}
	}
	if got := names(t, dir); got != "file" {
		t.Errorf("left beside it: %s", got)
	}
	if err := durable.WriteFile(filepath.Join(dir, "none/file"), nil, 0o600); err == nil || !strings.HasPrefix(err.Error(), "write "+dir+"/none/file: ") {
		t.Errorf("without a directory: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if got := names(t, dir); got != "file taken" {
		t.Errorf("left after an error: %s", got)
	}
}

// Secrets stay in their directory: another one keeps what was written if kollet is
// killed.
func TestWriteFileUsesNoOtherDirectory(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", tmp)
	untouched := time.Unix(1000, 0)
	if err := os.Chtimes(tmp, untouched, untouched); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(tmp); err != nil || !info.ModTime().Equal(untouched) {
		t.Errorf("something was written to TMPDIR: %v, %v", info.ModTime(), err)
	}
}

// Who reads meanwhile sees the one content or the other, never a part.
func TestWriteFileIsAtomic(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 1<<17)}
	if err := durable.WriteFile(path, contents[0], 0o600); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			data, err := os.ReadFile(path)
			if err != nil || !bytes.Equal(data, contents[0]) && !bytes.Equal(data, contents[1]) {
				t.Errorf("read %d bytes, %v", len(data), err)
				return
			}
		}
	})
	for i := range 20 {
		if err := durable.WriteFile(path, contents[i%2], 0o600); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestSymlink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "link")
	for _, target := range []string{"here/one", "/nowhere", "/nowhere"} {
		if err := durable.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); err != nil || got != target {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if got := names(t, dir); got != "link" {
		t.Errorf("left beside it: %s", got)
	}
	if err := durable.Symlink("a", filepath.Join(dir, "none/link")); err == nil || !strings.HasPrefix(err.Error(), "link ") {
		t.Errorf("without a directory: %v", err)
	}
}

func TestSync(t *testing.T) {
	dir := t.TempDir()
	for name, sync := range map[string]func(string) error{"SyncDir": durable.SyncDir, "SyncFS": durable.SyncFS} {
		if err := sync(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := sync(filepath.Join(dir, "none")); err == nil {
			t.Errorf("%s: no error where nothing is", name)
		}
	}
}
