package conformance

import (
	"testing"

	"github.com/kollet/kollet/containers"
)

var restartTests = []test{
	{"keeps what it had, and restarts only what nobody stopped", func(t *testing.T, s *suite) {
		spec := func(script string, policy containers.Restart) containers.Spec {
			c := s.script(script)
			c.Restart = policy
			return c
		}
		before := map[string]containers.Spec{}
		start := func(c containers.Spec) string {
			id := s.start(t, c)
			before[id] = c
			return id
		}
		serving := start(spec(forever, containers.RestartUnlessStopped))
		stopped := start(spec(forever, containers.RestartUnlessStopped))
		looping := start(spec("exit 1", containers.RestartUnlessStopped))
		staged := start(spec(forever, containers.RestartNo))
		ended := start(spec("exit 6", containers.RestartNo))
		created := s.create(t, spec(forever, containers.RestartNo))
		s.await(t, ended, containers.StateExited)
		must(t, s.Engine.Stop(t.Context(), stopped, 0))
		must(t, s.Engine.Stop(t.Context(), looping, 0))
		s.await(t, looping, containers.StateExited)
		was := map[string]containers.Container{}
		for _, id := range []string{stopped, looping, ended} {
			was[id] = s.inspect(t, id)
		}

		s.Restart()

		eventually(t, "the serving container runs", func() bool { return s.inspect(t, serving).State == containers.StateRunning })
		equal(t, "output of a command in it", s.exec(t, serving, "echo", "hello"), "hello")
		for id, c := range was {
			now := s.inspect(t, id)
			equal(t, "state", now.State, containers.StateExited)
			equal(t, "exit status", now.ExitCode, c.ExitCode)
			equal(t, "start time", now.Started, c.Started)
		}
		equal(t, "state of the created one", s.inspect(t, created).State, containers.StateCreated)
		for id, c := range before {
			wantSpec(t, s.inspect(t, id), c)
		}
		// Whether the engine took the staged one down or let it live, it is
		// the engine's to stop, start and remove.
		must(t, s.Engine.Stop(t.Context(), staged, 0))
		must(t, s.Engine.Start(t.Context(), staged))
		equal(t, "output of a command in the staged one", s.exec(t, staged, "echo", "hello"), "hello")
		_, err := s.Engine.Image(t.Context(), s.base.Digest)
		must(t, err)
	}},
}
