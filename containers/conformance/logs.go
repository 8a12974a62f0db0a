package conformance

import (
	"bufio"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
)

var logTests = []test{
	{"output and errors, all or the last lines", func(t *testing.T, s *suite) {
		id := s.printed(t, "echo one; read x <&9; echo two >&2; read x <&9; echo three; read x <&9; printf end")
		s.await(t, id, containers.StateExited)
		for tail, want := range map[int]string{0: "one\ntwo\nthree\nend", 1: "end", 2: "three\nend", 9: "one\ntwo\nthree\nend"} {
			equal(t, "log", strings.TrimSuffix(s.logs(t, id, containers.LogOptions{Tail: tail}), "\n"), want)
		}
	}},
	{"empty before the first run", func(t *testing.T, s *suite) {
		id := s.create(t, s.script("echo x"))
		equal(t, "log", s.logs(t, id, containers.LogOptions{}), "")
	}},
	{"since a time, with timestamps", func(t *testing.T, s *suite) {
		begun := time.Now()
		id := s.printed(t, "echo one; read x <&9; echo two; read x <&9; echo three; read x <&9")
		s.await(t, id, containers.StateExited)
		var times []time.Time
		for line := range strings.Lines(s.logs(t, id, containers.LogOptions{Timestamps: true})) {
			stamp, word, _ := strings.Cut(strings.TrimSpace(line), " ")
			at, err := time.Parse(time.RFC3339Nano, stamp)
			if must(t, err); at.Before(begun) || at.After(time.Now()) || !strings.Contains("one two three", word) {
				t.Errorf("line %q", line)
			}
			times = append(times, at)
		}
		if len(times) != 3 {
			t.Fatalf("%d lines", len(times))
		}
		equal(t, "log since after the first line", s.logs(t, id, containers.LogOptions{Since: times[0].Add(time.Nanosecond)}), "two\nthree\n")
		equal(t, "log since the future", s.logs(t, id, containers.LogOptions{Since: times[2].Add(time.Hour)}), "")
	}},
	{"follow until the container exits", func(t *testing.T, s *suite) {
		spec, say := s.paced(t, "echo one; read x <&9; echo two >&2; echo three; exit 3")
		id := s.start(t, spec)
		lines, ended := s.follow(t, t.Context(), id)
		equal(t, "first line", <-lines, "one")
		say("go")
		got := map[string]bool{<-lines: true, <-lines: true}
		if !got["two"] || !got["three"] {
			t.Errorf("got %v", got)
		}
		must(t, <-ended)
	}},
	{"follow until the context ends", func(t *testing.T, s *suite) {
		id := s.start(t, s.script(forever))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lines, ended := s.follow(t, ctx, id)
		equal(t, "first line", <-lines, "up")
		cancel()
		must(t, <-ended)
		wantErrorIs(t, s.Engine.Logs(ctx, id, containers.LogOptions{}, io.Discard), context.Canceled)
	}},
	{"rotation by size", func(t *testing.T, s *suite) {
		spec := s.script("i=0; while [ $i -lt 3000 ]; do echo \"line $i of the log\"; i=$((i+1)); done")
		spec.LogSize, spec.LogFiles = 16<<10, 2
		id := s.start(t, spec)
		s.await(t, id, containers.StateExited)
		eventually(t, "the last line is there", func() bool {
			return strings.Contains(s.logs(t, id, containers.LogOptions{}), "line 2999 of")
		})
		if out := s.logs(t, id, containers.LogOptions{}); strings.Contains(out, "line 0 of") || len(out) > 3*16<<10 {
			t.Errorf("%d bytes kept, including the first line: %v", len(out), strings.Contains(out, "line 0 of"))
		}
	}},
}

// printed starts a container whose script prints one, two and three, and waits after each.
// It continues when the line is in the log, so that the lines are there in this order.
func (s *suite) printed(t *testing.T, script string) string {
	t.Helper()
	spec, say := s.paced(t, script)
	id := s.start(t, spec)
	for _, line := range []string{"one\n", "two\n", "three\n"} {
		eventually(t, "the log has the line "+line, func() bool { return strings.Contains(s.logs(t, id, containers.LogOptions{}), line) })
		say("go")
	}
	return id
}

// follow sends a container's lines as they arrive, and then the result of Logs.
func (s *suite) follow(t *testing.T, ctx context.Context, id string) (lines chan string, ended chan error) {
	t.Helper()
	r, w := io.Pipe()
	lines, ended = make(chan string), make(chan error, 1)
	go func() {
		ended <- s.Engine.Logs(ctx, id, containers.LogOptions{Follow: true}, w)
		w.Close()
	}()
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(r); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines, ended
}
