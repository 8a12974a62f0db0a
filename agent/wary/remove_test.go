package wary_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// nest makes a directory with others in it, each with a file, deeper than any path can name.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < depth && err == nil; i++ {
		if err = unix.Mkdirat(at, "d", 0o700); err != nil {
			break
		}
		var next, file int
		if file, err = unix.Openat(at, "f", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err != nil {
			break
		}
		unix.Close(file)
		next, err = unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		unix.Close(at)
		at = next
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

// A tree that is deeper than files may be open, with names that are taken and a link that leads
// out of it, is removed in little time.
func TestRemoveAllDeep(t *testing.T) {
	dir := t.TempDir()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = 64
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
			t.Error(err)
		}
	})
	tree, other := filepath.Join(dir, "tree"), filepath.Join(dir, "other")
	for _, d := range []string{tree + "/.moved-2/x", tree + "/wide", other} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, tree+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other+"/kept", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		at := filepath.Join(tree, "wide", string(rune('a'+i)))
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		nest(t, at, 1000)
	}
	if err := wary.RemoveAll(t.Context(), tree); err != nil {
		t.Errorf("%.500v", err)
	}
	if _, err := os.Lstat(tree); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	if _, err := os.Lstat(other + "/kept"); err != nil {
		t.Error(err)
	}
}

func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	for _, absent := range []string{dir + "/none", dir + "/no/such"} {
		if err := wary.RemoveAll(t.Context(), absent); err != nil {
			t.Error(err)
		}
	}
	file, link := dir+"/file", dir+"/link"
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if err := wary.RemoveAll(t.Context(), path); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
}

// When the time is over, what is left is removed by the next call. The error names the tree,
// not the whole path of what was not removed.
func TestRemoveAllEnds(t *testing.T) {
	tree := filepath.Join(t.TempDir(), "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		t.Fatal(err)
	}
	nest(t, tree, 40)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	err := wary.RemoveAll(over, tree)
	if !errors.Is(err, context.Canceled) || !strings.HasPrefix(err.Error(), "remove "+tree+": ") {
		t.Errorf("got %v", err)
	}
	if err := wary.RemoveAll(t.Context(), tree); err != nil {
		t.Error(err)
	}
}
