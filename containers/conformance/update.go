package conformance

import (
	"syscall"
	"testing"

	"github.com/kollet/kollet/containers"
)

var updateTests = []test{
	{"names of two containers are swapped", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Restart = containers.RestartUnlessStopped
		old := s.start(t, spec)
		service := spec.Name
		spec.Name, spec.Restart = unique("next"), containers.RestartNo
		next := s.start(t, spec)
		pid := s.inspect(t, next).PID

		demoted := unique("old")
		must(t, s.Engine.Update(t.Context(), old, demoted, containers.RestartNo))
		must(t, s.Engine.Update(t.Context(), next, service, containers.RestartUnlessStopped))
		for id, want := range map[string]containers.Spec{
			old:  {Name: demoted, Restart: containers.RestartNo},
			next: {Name: service, Restart: containers.RestartUnlessStopped},
		} {
			c := s.inspect(t, id)
			equal(t, "name", c.Spec.Name, want.Name)
			equal(t, "restart", c.Spec.Restart, want.Restart)
			equal(t, "state", c.State, containers.StateRunning)
		}
		equal(t, "pid of the running container", s.inspect(t, next).PID, pid)

		must(t, syscall.Kill(pid, syscall.SIGKILL))
		eventually(t, "its new policy is in effect", func() bool {
			c := s.inspect(t, next)
			return c.State == containers.StateRunning && c.PID != pid
		})
		must(t, syscall.Kill(s.inspect(t, old).PID, syscall.SIGKILL))
		s.await(t, old, containers.StateExited)
	}},
	{"second update changes nothing, in any state", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		id := s.create(t, spec)
		name := unique("updated")
		update := func() containers.Container {
			for range 2 {
				must(t, s.Engine.Update(t.Context(), id, name, containers.RestartUnlessStopped))
			}
			c := s.inspect(t, id)
			want := spec
			want.Name, want.Restart = name, containers.RestartUnlessStopped
			wantSpec(t, c, want)
			return c
		}
		equal(t, "state", update().State, containers.StateCreated)
		must(t, s.Engine.Start(t.Context(), id))
		equal(t, "state", update().State, containers.StateRunning)
		name = unique("updated")
		must(t, s.Engine.Stop(t.Context(), id, 0))
		equal(t, "state", update().State, containers.StateExited)
	}},
	{"name in use is refused and nothing is changed", func(t *testing.T, s *suite) {
		other := s.script("true")
		s.create(t, other)
		spec := s.script("true")
		id := s.create(t, spec)
		wantError(t, s.Engine.Update(t.Context(), id, other.Name, containers.RestartUnlessStopped), other.Name)
		wantSpec(t, s.inspect(t, id), spec)
	}},
	{"limits of processes stay when the policy changes", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Ulimits = []containers.Ulimit{{Name: "nofile", Soft: 321, Hard: 654}, {Name: "core", Soft: 0, Hard: 0}}
		id := s.start(t, spec)
		spec.Restart = containers.RestartUnlessStopped
		must(t, s.Engine.Update(t.Context(), id, spec.Name, spec.Restart))
		wantSpec(t, s.inspect(t, id), spec)
	}},
	{"stopped container stays stopped", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Restart = containers.RestartUnlessStopped
		id := s.start(t, spec)
		must(t, s.Engine.Stop(t.Context(), id, 0))
		for _, policy := range []containers.Restart{containers.RestartNo, containers.RestartUnlessStopped} {
			must(t, s.Engine.Update(t.Context(), id, spec.Name, policy))
			equal(t, "state", s.inspect(t, id).State, containers.StateExited)
		}
	}},
}
