package conformance

import (
	"os"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

// noDirectories is a seccomp profile in which nothing can make a directory.
const noDirectories = `{"defaultAction":"SCMP_ACT_ALLOW","syscalls":[{"names":["mkdir","mkdirat"],"action":"SCMP_ACT_ERRNO"}]}`

// securityTests test what confines the processes of a container.
var securityTests = []test{
	{"no new privileges only if requested", func(t *testing.T, s *suite) {
		spec := s.script("grep NoNewPrivs /proc/self/status")
		equal(t, "by default", s.run(t, spec), "NoNewPrivs:\t0")
		spec.Name, spec.Security.NoNewPrivileges = unique("c"), true
		equal(t, "if requested", s.run(t, spec), "NoNewPrivs:\t1")
		spec.Name, spec.Privileged = unique("c"), true
		equal(t, "privileged", s.run(t, spec), "NoNewPrivs:\t1")
	}},
	{"seccomp profile of the engine, of the spec, or none", func(t *testing.T, s *suite) {
		// A test may itself run with filters, to which those of the container are added.
		own := field(t, "Seccomp_filters:")
		spec := s.script("grep -E '^Seccomp' /proc/self/status; mkdir /tmp/made && echo made; true")
		if out := s.run(t, spec); strings.Contains(out, "Seccomp_filters:\t"+own+"\n") || !strings.Contains(out, "made") {
			t.Errorf("the engine's: %s", out)
		}
		spec.Name, spec.Security.Seccomp = unique("c"), containers.Unconfined
		if out := s.run(t, spec); !strings.Contains(out, "Seccomp_filters:\t"+own+"\n") || !strings.Contains(out, "made") {
			t.Errorf("none: %s", out)
		}
		spec.Name, spec.Security.Seccomp = unique("c"), noDirectories
		if out := s.run(t, spec); strings.Contains(out, "Seccomp_filters:\t"+own+"\n") || strings.HasSuffix(out, "made") {
			t.Errorf("the spec's: %s", out)
		}
		spec.Name, spec.Privileged = unique("c"), true
		s.refuses(t, spec, "privileged", "seccomp")
	}},
	{"security is read back", func(t *testing.T, s *suite) {
		for _, security := range []containers.Security{
			{NoNewPrivileges: true, Seccomp: containers.Unconfined, AppArmor: containers.Unconfined},
			{Seccomp: noDirectories},
		} {
			spec := s.script(forever)
			spec.Security = security
			if spec.Privileged = security.Seccomp == containers.Unconfined; spec.Privileged {
				spec.PID, spec.IPC = "host", "host" // Docker adds options of its own
			}
			id := s.create(t, spec)
			wantSpec(t, s.inspect(t, id), spec)
			must(t, s.Engine.Start(t.Context(), id))
			wantSpec(t, s.inspect(t, id), spec)
		}
	}},
	{"profile that does not exist is an error", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Security.AppArmor = "kollet-no-such-profile"
		id, err := s.Engine.Create(t.Context(), spec)
		if err == nil {
			s.removeLater(t, id)
			err = s.Engine.Start(t.Context(), id)
		}
		wantError(t, err, "AppArmor", "security_opt")
	}},
	{"seccomp profile that the runtime refuses is explained", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Security.Seccomp = `{"defaultAction":"SCMP_ACT_ALLOW","architectures":["SCMP_ARCH_NONE"],"syscalls":[{"names":["mkdir"],"action":"SCMP_ACT_ERRNO"}]}`
		id := s.create(t, spec)
		wantError(t, s.Engine.Start(t.Context(), id), "its seccomp profile is refused", "SCMP_ARCH_NONE", "correct the profile that security_opt")
	}},
	{"seccomp profile that is none is refused", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Security.Seccomp = "{}"
		s.refuses(t, spec, "seccomp", "defaultAction")
	}},
}

// field returns a field of this process's status, see proc(5).
func field(t *testing.T, name string) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := strings.Cut(string(status), name)
	value, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(value)
}
