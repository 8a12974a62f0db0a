package wary_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

func TestFollow(t *testing.T) {
	dir := made(t)
	for _, err := range []error{
		os.Symlink(filepath.Join(dir, "dir"), filepath.Join(dir, "absolute")),
		os.Symlink("loop", filepath.Join(dir, "loop")),
		os.Symlink("../file", filepath.Join(dir, "dir", "up")),
		os.Symlink("file", filepath.Join(dir, "foreign")),
		os.Lchown(filepath.Join(dir, "foreign"), 1000, 1000),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]struct {
		at  string // below dir, and the name
		err error
	}{
		"file":           {"/file", nil},
		"link":           {"/file", nil},
		"dir":            {"/dir/.", nil},
		"absolute":       {"/dir/.", nil},
		"absolute/up":    {"/file", nil},
		"dir/../file":    {"/file", nil},
		"fifo":           {"/fifo", nil},
		"loop":           {"", unix.ELOOP},
		"gone":           {"", unix.ENOENT},
		"file/below":     {"", unix.ENOTDIR},
		"link/../secret": {"", unix.ENOTDIR},
	} {
		got, err := wary.Follow(dir + "/" + path)
		if !errors.Is(err, want.err) {
			t.Errorf("%s: got error %v, want %v", path, err, want.err)
		}
		if err != nil {
			continue
		}
		if at := got.Dir + "/" + got.Name; at != dir+want.at {
			t.Errorf("%s: led to %s, want %s", path, at, dir+want.at)
		}
		if _, err := got.Root.Lstat(got.Name); err != nil {
			t.Error(err)
		}
		got.Root.Close()
	}
	var planted *wary.PlantedError
	if _, err := wary.Follow(dir + "/foreign"); !errors.As(err, &planted) || planted.Link != dir+"/foreign" {
		t.Errorf("got error %v", err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := wary.Follow(dir + "/link"); !errors.As(err, &planted) {
		t.Errorf("in a directory of a group: got error %v", err)
	}
}
