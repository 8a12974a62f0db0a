package conformance

import (
	"testing"

	"github.com/kollet/kollet/containers"
)

var restartTests = []test{
	{"containers are kept, and stopped ones are not started", func(t *testing.T, s *suite) {
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
		always := start(spec(forever, containers.RestartAlways))
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

		for _, id := range []string{serving, always} {
			s.await(t, id, containers.StateRunning)
			equal(t, "restarts, without those of the engine", s.inspect(t, id).Restarts, 0)
			equal(t, "output of a command in it", s.exec(t, id, "echo", "hello"), "hello")
		}
		for id, c := range was {
			now := s.inspect(t, id)
			equal(t, "state", now.State, containers.StateExited)
			if id == ended && s.ForgetsExits {
				c.ExitCode = 255 // kollet did not stop this one
			}
			equal(t, "exit status", now.ExitCode, c.ExitCode)
			equal(t, "start time", now.Started, c.Started)
		}
		equal(t, "state of the created container", s.inspect(t, created).State, containers.StateCreated)
		for id, c := range before {
			wantSpec(t, s.inspect(t, id), c)
		}
		// The engine may have stopped the staged container or not, but it can
		// still stop, start and remove it.
		must(t, s.Engine.Stop(t.Context(), staged, 0))
		must(t, s.Engine.Start(t.Context(), staged))
		equal(t, "output of a command in the staged container", s.exec(t, staged, "echo", "hello"), "hello")
		_, err := s.Engine.Image(t.Context(), s.base.Digest)
		must(t, err)
	}},
	{"containers with the policy always are started, also after a crash", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Restart = containers.RestartAlways
		running := s.start(t, spec)
		spec.Name = unique("c")
		stopped := s.start(t, spec)
		must(t, s.Engine.Stop(t.Context(), stopped, 0))
		equal(t, "state after stop", s.inspect(t, stopped).State, containers.StateExited)
		spec.Name, spec.Restart = unique("c"), containers.RestartNo
		demoted := s.start(t, spec) // a service of the previous generation
		must(t, s.Engine.Update(t.Context(), demoted, spec.Name, containers.RestartAlways))
		must(t, s.Engine.Update(t.Context(), demoted, spec.Name, containers.RestartNo))
		must(t, s.Engine.Stop(t.Context(), demoted, 0))

		s.Crash()

		up := []string{running}
		if s.StartsStopped {
			up = append(up, stopped)
		} else {
			equal(t, "state of the stopped container", s.inspect(t, stopped).State, containers.StateExited)
		}
		for _, id := range up {
			s.await(t, id, containers.StateRunning)
			equal(t, "restarts, without those of the engine", s.inspect(t, id).Restarts, 0)
			equal(t, "output of a command", s.exec(t, id, "echo", "hello"), "hello")
		}
		equal(t, "state of the demoted container", s.inspect(t, demoted).State, containers.StateExited)
	}},
}
