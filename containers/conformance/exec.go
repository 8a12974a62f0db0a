package conformance

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

var execTests = []test{
	{"status, output and errors", func(t *testing.T, s *suite) {
		id := s.start(t, s.script(forever))
		for script, want := range map[string]struct {
			status      int
			out, errors string
		}{
			"echo out; echo err >&2; exit 3":         {3, "out\n", "err\n"},
			"true":                                   {0, "", ""},
			"exit 127":                               {127, "", ""},
			"kill -9 $$":                             {137, "", ""},
			"exec >&- 2>&-; sleep 0.2; exit 9":       {9, "", ""},
			"sleep 100000 & echo left a child":       {0, "left a child\n", ""},
			"echo 'OCI runtime exec failed: really'": {0, "OCI runtime exec failed: really\n", ""},
			"head -c 1000000 /dev/zero | tr '\\0' a": {0, strings.Repeat("a", 1000000), ""},
		} {
			for _, short := range []bool{false, true} {
				var out, errors bytes.Buffer
				status, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"sh", "-c", script}, Short: short, Stdout: &out, Stderr: &errors})
				must(t, err)
				equal(t, "status of "+script, status, want.status)
				equal(t, "output of "+script, out.String(), want.out)
				equal(t, "errors of "+script, errors.String(), want.errors)
			}
			status, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"sh", "-c", script}})
			must(t, err)
			equal(t, "status without output of "+script, status, want.status)
		}
	}},
	{"user and environment", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.User, spec.Env = "nova", map[string]string{"A": "container"}
		id := s.start(t, spec)
		const show = `echo "$(id -u) $A $B"`
		for _, c := range []struct {
			cmd  containers.Exec
			want string
		}{
			{containers.Exec{}, "42436 container"},
			{containers.Exec{User: "root"}, "0 container"},
			{containers.Exec{User: "65534:0", Env: map[string]string{"A": "x", "B": "y z"}}, "65534 x y z"},
		} {
			var out bytes.Buffer
			c.cmd.Argv, c.cmd.Stdout = []string{"sh", "-c", show}, &out
			_, err := s.Engine.Exec(t.Context(), id, c.cmd)
			must(t, err)
			equal(t, "output", strings.TrimSpace(out.String()), c.want)
		}
	}},
	{"standard input", func(t *testing.T, s *suite) {
		id := s.start(t, s.script(forever))
		text := strings.Repeat("0123456789abcde\n", 20000)
		for _, c := range []struct {
			in   io.Reader
			want string
		}{{strings.NewReader(text), text}, {strings.NewReader(""), ""}, {nil, ""}} {
			var out bytes.Buffer
			status, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"cat"}, Stdin: c.in, Stdout: &out})
			must(t, err)
			equal(t, "status", status, 0)
			equal(t, "echo", out.String(), c.want)
		}
		// A command that exits does not wait for the end of its input.
		in, _ := io.Pipe()
		defer in.Close()
		status, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"false"}, Stdin: in})
		must(t, err)
		equal(t, "status", status, 1)
	}},
	{"terminal and resize", func(t *testing.T, s *suite) {
		id := s.start(t, s.script(forever))
		sizes := make(chan [2]uint16, 2)
		sizes <- [2]uint16{80, 24}
		sizes <- [2]uint16{132, 43}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var out bytes.Buffer
		status, err := s.Engine.Exec(ctx, id, containers.Exec{
			Argv:   []string{"sh", "-c", `test -t 0 && test -t 1 || exit 1; until [ "$(stty size)" = "43 132" ]; do sleep 0.02; done; read word; echo "size ok, $word"; exit 4`},
			TTY:    true,
			Stdin:  strings.NewReader("hello\n"),
			Stdout: &out, Resize: sizes,
		})
		must(t, err)
		equal(t, "status", status, 4)
		if !strings.Contains(out.String(), "size ok, hello\r\n") {
			t.Errorf("output %q", &out)
		}
	}},
	{"command that cannot be run is an error, not a status", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		id := s.start(t, spec)
		for _, argv := range [][]string{{"missing"}, {"/etc/word"}, {}} {
			for _, tty := range []bool{false, true} {
				var out bytes.Buffer
				_, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: argv, TTY: tty, Stdout: &out, Stderr: &out})
				if wantError(t, err, argv...); out.Len() > 0 {
					t.Errorf("%q printed %q", argv, &out)
				}
			}
		}
		_, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"true"}, User: "missing"})
		wantError(t, err, spec.Name)
		must(t, s.Engine.Stop(t.Context(), id, 0))
		_, err = s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"true"}})
		wantError(t, err, spec.Name)
	}},
	{"short command that prints too much is killed", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Privileged, spec.PID = true, "host"
		id := s.start(t, spec)
		for script, child := range map[string]string{"sleep 98763 & yes; echo never": "98763", "head -c 2000000 /dev/zero >&2": ""} {
			var out bytes.Buffer
			_, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"sh", "-c", script}, Short: true, Stdout: &out, Stderr: &out})
			wantErrorIs(t, err, containers.ErrTooMuchOutput)
			if out.Len() > containers.MostOutput {
				t.Errorf("%s: got %d bytes", script, out.Len())
			}
			if child != "" {
				eventually(t, "the command and its child have exited", func() bool { return !running(t, "sleep", child) })
			}
		}
		equal(t, "state of the container", s.inspect(t, id).State, containers.StateRunning)
	}},
	{"cancelled command is killed", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Privileged, spec.PID = true, "host"
		id := s.start(t, spec)
		for _, tty := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := s.Engine.Exec(ctx, id, containers.Exec{
				Argv:   []string{"sh", "-c", "echo running; sleep 98762; echo never"},
				TTY:    tty,
				Stdout: writer(func([]byte) { cancel() }),
			})
			wantErrorIs(t, err, context.Canceled)
			eventually(t, "the command and its child have exited", func() bool { return !running(t, "sleep", "98762") })
			cancel()
		}
		equal(t, "state of the container", s.inspect(t, id).State, containers.StateRunning)
	}},
}

// writer calls a function for each write.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}
