package wary_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// A directory may be mounted at several places: what a container can write at one of them, it
// can write at all.
func TestNoLinkIsFollowedByAnotherMount(t *testing.T) {
	for name, c := range map[string]struct {
		mounted, at string // below the directory of the test
		flags       uintptr
		follow      string
		planted     bool
	}{
		"below the directory":                     {"shared/conf", "etc/app", 0, "etc/app/link", true},
		"deeper":                                  {"shared", "etc/app", 0, "etc/app/conf/link", true},
		"mounted below the directory":             {"other", "shared/conf", 0, "other/link", true},
		"mounted below it from the outside":       {"other", "shared/conf", 0, "shared/conf/link", true},
		"a name with a space":                     {"shared/a name", "etc/a name", 0, "etc/a name/link", true},
		"another directory":                       {"other", "etc/app", 0, "etc/app/link", false},
		"beside it":                               {"shared2", "etc/app", 0, "etc/app/link", false},
		"mounted below it, but a container reads": {"other", "shared/conf", unix.MS_RDONLY, "other/link", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(path string) string { return filepath.Join(dir, path) }
			err := os.WriteFile(in("secret"), []byte("s"), 0o600)
			for _, d := range []string{"shared/conf", "shared/a name", "shared2", "other", "etc/app", "etc/a name"} {
				err = errors.Join(err, os.MkdirAll(in(d), 0o755), os.Symlink(in("secret"), in(d+"/link")))
			}
			err = errors.Join(err, unix.Mount(in(c.mounted), in(c.at), "", unix.MS_BIND, ""))
			t.Cleanup(func() { _ = unix.Unmount(in(c.at), unix.MNT_DETACH) })
			if c.flags != 0 {
				err = errors.Join(err, unix.Mount("", in(c.at), "", unix.MS_REMOUNT|unix.MS_BIND|c.flags, ""))
			}
			if err != nil {
				t.Fatal(err)
			}
			_, err = wary.DirsOf(in("shared")).ReadFile(in(c.follow), 10)
			_, planted := errors.AsType[*wary.PlantedError](err)
			if planted != c.planted || !planted && err != nil || planted && !strings.HasSuffix(err.Error(), "in another directory") {
				t.Errorf("got %v, want a planted link: %v", err, c.planted)
			}
		})
	}
}
