package wary_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
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
		got, err := wary.Dirs(nil).Follow(dir + "/" + path)
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
	if _, err := wary.Dirs(nil).Follow(dir + "/foreign"); !errors.As(err, &planted) || planted.Link != dir+"/foreign" {
		t.Errorf("got error %v", err)
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := wary.Dirs(nil).Follow(dir + "/link"); !errors.As(err, &planted) {
		t.Errorf("in a directory of a group: got error %v", err)
	}
}

// What a container could have put there is not followed, although root owns it.
func TestFollowBelowContainers(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "srv/data/sub/deep"), 0o755),
		os.WriteFile(filepath.Join(dir, "srv/data/sub/file"), []byte("own"), 0o600),
		os.WriteFile(filepath.Join(dir, "secret"), []byte("secret"), 0o600),
		os.Symlink(filepath.Join(dir, "secret"), filepath.Join(dir, "srv/data/out")),
		os.Symlink("../../../secret", filepath.Join(dir, "srv/data/sub/out")),
		os.Symlink("file", filepath.Join(dir, "srv/data/sub/in")),
		os.Symlink("srv/data", filepath.Join(dir, "alias")), // the operator's
		os.Symlink("srv/data/sub/file", filepath.Join(dir, "to-file")),
		os.Symlink("srv/data/out", filepath.Join(dir, "to-out")),
		os.Symlink("../secret", filepath.Join(dir, "srv/beside")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	mounted := wary.DirsOf(filepath.Join(dir, "alias"), filepath.Join(dir, "gone"), filepath.Join(dir, "secret"))
	for path, want := range map[string]struct{ link, content string }{
		"srv/data/out":            {"/srv/data/out", ""},
		"srv/data/sub/out":        {"/srv/data/sub/out", ""},
		"srv/data/sub/in":         {"/srv/data/sub/in", ""},
		"alias/sub/out":           {"/srv/data/sub/out", ""},
		"to-out":                  {"/srv/data/out", ""},
		"srv/data/sub/deep/../in": {"/srv/data/sub/in", ""},
		"srv/data/sub/file":       {"", "own"},
		"alias/sub/file":          {"", "own"},
		"to-file":                 {"", "own"},
		"srv/beside":              {"", "secret"},
		"srv/data/../beside":      {"", "secret"},
	} {
		place, err := mounted.Follow(dir + "/" + path)
		if err == nil {
			place.Root.Close()
		}
		data, readErr := mounted.ReadFile(dir+"/"+path, 100)
		var planted, read *wary.PlantedError
		switch {
		case want.link == "" && (err != nil || readErr != nil || string(data) != want.content):
			t.Errorf("%s: %v; read %q, %v", path, err, data, readErr)
		case want.link == "":
		case !errors.As(err, &planted) || !errors.As(readErr, &read) || *planted != *read:
			t.Errorf("%s: got errors %v and %v", path, err, readErr)
		case planted.Link != dir+want.link || planted.Below != dir+"/alias":
			t.Errorf("%s: got error %v", path, err)
		}
	}
}

func TestReadFileOfOthers(t *testing.T) {
	dir := made(t)
	for name, want := range map[string]error{"fifo": &wary.KindError{}, "dir": &wary.KindError{}, "gone": fs.ErrNotExist, "gone/below": fs.ErrNotExist, "file/below": unix.ENOTDIR, "large": &wary.SizeError{}} {
		if name == "large" {
			if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 101), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := dir + "/" + name
		_, err := wary.Dirs(nil).ReadFile(path, 100)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v", name, err)
		}
		switch want.(type) {
		case *wary.KindError, *wary.SizeError:
			if reflect.TypeOf(err) != reflect.TypeOf(want) {
				t.Errorf("%s: got error %T", name, err)
			}
		default:
			if !errors.Is(err, want) {
				t.Errorf("%s: got error %v, want %v", name, err, want)
			}
		}
	}
}
