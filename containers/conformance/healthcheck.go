package conformance

import (
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
)

// healthcheckTests test the engine's own health checks.
var healthcheckTests = []test{
	{"health check of the engine is run and read back, or refused", func(t *testing.T, s *suite) {
		spec := s.script("until [ -s /tmp/checked ]; do sleep 0.1; done; cat /tmp/checked")
		spec.Healthcheck = containers.Healthcheck{Test: []string{"/bin/sh", "-c", "echo \"$0\" >/tmp/checked", "a b"}, Interval: time.Second, StartPeriod: time.Minute}
		if !s.HasHealthchecks {
			s.refuses(t, spec, "engine_healthcheck")
			return
		}
		equal(t, "argument of the command", s.run(t, spec), "a b")
		spec = s.script(forever)
		spec.Healthcheck = containers.Healthcheck{Test: []string{"/bin/true"}, Timeout: 5 * time.Second, Retries: 2}
		id := s.create(t, spec)
		wantSpec(t, s.inspect(t, id), spec)
		must(t, s.Engine.Start(t.Context(), id))
		wantSpec(t, s.inspect(t, id), spec)
	}},
	{"health check without a command is refused", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Healthcheck.Interval = time.Second
		s.refuses(t, spec, "engine_healthcheck", "test: expected a command")
	}},
}
