package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
)

// usersTests have containers replace what engines and runc read before they start them again.
var usersTests = []test{
	{"lists of users that do not end are not read", func(t *testing.T, s *suite) {
		for script, what := range map[string]string{
			"mkfifo /etc/passwd": "/etc/passwd is a FIFO",
			"mkfifo /etc/pipe; ln -s /tmp/../etc/pipe /etc/group":     "/etc/group is a FIFO",
			"mknod /etc/group c 1 5":                                  "/etc/group is no regular file",
			"truncate -s 8T /etc/group || truncate -s 64M /etc/group": "/etc/group is a file of ",
			"ln -s ../../../../../../proc/kmsg /etc/passwd":           "/etc/passwd is a link to /proc/kmsg",
		} {
			spec, id := s.replacing(t, script)
			wantError(t, s.Engine.Start(t.Context(), id), "starting container "+spec.Name, "its "+what)
			c := s.inspect(t, id)
			equal(t, script+": state", c.State, containers.StateExited)
		}
	}},
	{"lists of users that do not end are found in mounts", func(t *testing.T, s *suite) {
		for script, what := range map[string]string{
			"mkfifo /data/pipe; ln -s /data/pipe /etc/passwd":                             "/etc/passwd is a FIFO",
			"mkfifo /data/pipe; ln -s /up/link /etc/group; ln -s ../data/pipe /data/link": "/etc/group is a FIFO",
		} {
			dir := t.TempDir()
			spec, id := s.replacing(t, script, bound(dir, "/data"), bound(dir, "/up"))
			wantError(t, s.Engine.Start(t.Context(), id), "starting container "+spec.Name, "its "+what)
		}
		dir := t.TempDir()
		spec, id := s.replacing(t, "mkfifo /etc/passwd", bound(dir, "/etc"))
		wantError(t, s.Engine.Start(t.Context(), id), "starting container "+spec.Name, "its /etc/passwd is a FIFO")
	}},
	{"lists of users are not looked for outside of a container", func(t *testing.T, s *suite) {
		dir, err := os.MkdirTemp("/var/tmp", "kollet-") //nolint:usetesting // $TMPDIR may be below /dev, where no list may be
		must(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		must(t, unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
		_, id := s.replacing(t, fmt.Sprintf("ln -s %[1]s/pipe /etc/passwd; ln -s %[1]s/pipe /data/link; ln -s /data/link /etc/group", dir), bound(t.TempDir(), "/data"))
		must(t, s.Engine.Start(t.Context(), id))
	}},
	{"other lists of users are no reason not to start", func(t *testing.T, s *suite) {
		for _, script := range []string{
			"true",
			"ln -s ../etc/word /etc/passwd",
			"ln -s /nothing /etc/passwd",
			"ln -s ../bin/../nothing/passwd /etc/group; mkfifo /etc/shadow",
		} {
			_, id := s.replacing(t, script)
			if err := s.Engine.Start(t.Context(), id); err != nil {
				t.Errorf("%s: %v", script, err)
			}
		}
	}},
}

// replacing returns a container that was stopped after it ran a script without its lists of users.
func (s *suite) replacing(t *testing.T, script string, mounts ...containers.Mount) (containers.Spec, string) {
	t.Helper()
	spec := s.script("rm -f /etc/passwd /etc/group; " + script + "; " + forever)
	spec.Mounts = mounts
	spec.Restart = containers.RestartAlways
	id := s.start(t, spec)
	s.awaitUp(t, id)
	must(t, s.Engine.Start(t.Context(), id)) // it runs
	must(t, s.Engine.Stop(t.Context(), id, 0))
	return spec, id
}

func bound(source, target string) containers.Mount {
	return containers.Mount{Type: containers.Bind, Source: source, Target: target}
}
