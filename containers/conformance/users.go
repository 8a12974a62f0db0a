package conformance

import (
	"testing"

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
func (s *suite) replacing(t *testing.T, script string) (containers.Spec, string) {
	t.Helper()
	spec := s.script("rm /etc/passwd /etc/group; " + script + "; " + forever)
	spec.Restart = containers.RestartAlways
	id := s.start(t, spec)
	s.awaitUp(t, id)
	must(t, s.Engine.Start(t.Context(), id)) // it runs
	must(t, s.Engine.Stop(t.Context(), id, 0))
	return spec, id
}
