package adopt

import (
	"fmt"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// A service of generation 0 has what its container has, its own health check, and what only the
// node file says of the service.
func TestRunning(t *testing.T) {
	var e engine
	e.kolla(t, "nova_compute", plainConfig, func(c *containers.Container) {
		c.Spec.Restart, c.Spec.Labels = containers.RestartUnlessStopped, map[string]string{"site": "one"}
		c.Spec.Healthcheck = containers.Healthcheck{Test: []string{"CMD-SHELL", "healthcheck_port nova-compute 5672"}, Interval: 30 * time.Second}
	})
	next := generation.Service{
		Name: "nova-compute", Ref: "nova-compute:next", Origin: 3, User: "root", Argv: []string{"next"}, Command: []string{"next"},
		Files: []generation.File{{Name: "x"}}, Guests: &nodefile.Guests{}, DependsOn: []string{"nova-libvirt"}, StopGracePeriod: time.Minute,
		Healthcheck: []nodefile.Probe{{TCP: "next"}}, Requires: []nodefile.Probe{{TCP: "next"}},
	}
	s, err := Running(t.Context(), e, e.all[0], next)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"origin", s.Origin, 0},
		{"image", []string{s.Ref, s.Image.ID}, []string{e.all[0].Spec.Image, e.all[0].ImageID}},
		{"program", [][]string{s.Argv, s.Command}, [][]string{{"dumb-init", "--single-child", "--", "kolla_start"}, nil}},
		{"environment", s.Spec.Env, map[string]string{"TZ": "UTC"}},
		{"mounts", len(s.Spec.Mounts), 1},
		{"policy", s.Spec.Restart, containers.RestartUnlessStopped},
		{"labels and name", []any{s.Spec.Labels, s.Spec.Name}, []any{map[string]string(nil), ""}},
		{"files", len(s.Files), 0},
		{"guests and order", []any{s.Guests != nil, s.DependsOn[0], s.StopGracePeriod}, []any{true, "nova-libvirt", time.Minute}},
		{"requires", len(s.Requires), 0},
		{"probe", s.Healthcheck, []nodefile.Probe{{Exec: []string{"healthcheck_port", "nova-compute", "5672"}, Interval: time.Second, StartPeriod: 3 * time.Minute, Stable: 2 * time.Second, Timeout: 10 * time.Second}}},
	} {
		if fmt.Sprintf("%#v", c.got) != fmt.Sprintf("%#v", c.want) {
			t.Errorf("%s: %#v, want %#v", c.what, c.got, c.want)
		}
	}
	if len(e.all[0].Spec.Mounts) != 2 || e.all[0].Spec.Env["KOLLA_CONFIG_STRATEGY"] == "" {
		t.Error("the container's own settings were changed")
	}
}
