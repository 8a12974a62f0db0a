package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// A busy machine may take all of the time that the node file allows for one try of a probe.
func TestUnhealthy(t *testing.T) {
	for name, c := range map[string]struct {
		takes, timeout time.Duration // of a try
		want           string
	}{
		"at once":         {0, 10 * time.Second, ""},
		"slowly":          {8 * time.Second, 10 * time.Second, ""},
		"too slowly":      {12 * time.Second, 10 * time.Second, "not healthy within 10s: "},
		"never in time":   {2 * time.Second, time.Second, "not healthy within 5s: "},
		"a long time out": {2 * time.Minute, time.Hour, "not healthy within 1m0s: "},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node.Node{Host: host.Real(), Engine: engine{all: []containers.Container{{ID: "a", State: containers.StateRunning}}, takes: c.takes}}
				probe := nodefile.Probe{Exec: []string{"check"}, Interval: time.Second, StartPeriod: time.Minute, Timeout: c.timeout}
				sick := Unhealthy(t.Context(), n, []generation.Service{{Name: "a", Healthcheck: []nodefile.Probe{probe}}})
				if why := sick["a"]; (why == nil) != (c.want == "") || why != nil && !strings.HasPrefix(why.Error(), c.want) {
					t.Errorf("got %v, want %q", why, c.want)
				}
			})
		})
	}
}

// A service that does not run is repaired by an upgrade, which is not refused.
func TestRemedies(t *testing.T) {
	n := &node.Node{Root: t.TempDir(), Host: host.Real(), Engine: engine{all: []containers.Container{
		{ID: "a", State: containers.StatePaused},
	}}}
	sick := Unhealthy(t.Context(), n, []generation.Service{{Name: "a"}})
	if got := remedyFor("a", sick["a"]); got != "run `kollet upgrade`, which replaces it" {
		t.Errorf("%v: %s", sick["a"], got)
	}
	if got := remedyFor("a", errors.New("a probe fails")); !strings.Contains(got, "`kollet logs a` may show why") {
		t.Errorf("a probe fails: %s", got)
	}
}

// No upgrade repairs what kolla-ansible runs.
func TestRemedyOnANodeOfKolla(t *testing.T) {
	n := &node.Node{Root: t.TempDir(), Name: "compute-1", Host: host.Real(), Engine: engine{all: []containers.Container{
		{ID: "a", State: containers.StateExited},
	}}}
	services := []generation.Service{{Name: "a"}}
	if err := n.Store().SetAdopted(generation.Adopted{Generation: generation.Generation{Services: services}, Containers: map[string]generation.Container{"a": {ID: "a", Name: "kolla_a"}}}); err != nil {
		t.Fatal(err)
	}
	sick := Unhealthy(t.Context(), n, services)
	if got := remedyFor("a", sick["a"]); !strings.HasPrefix(got, "kolla-ansible runs it: `docker start kolla_a` starts it, or ") {
		t.Errorf("%v: %s", sick["a"], got)
	}
}

// An engine's own error says how to start it.
func TestEngineDown(t *testing.T) {
	for err, want := range map[error]string{errors.New("broken"): "start the container engine", containers.ErrUnreachable: ""} {
		if got, _ := checkEngine(t.Context(), &node.Node{Engine: down{err: err}}); got.Level != Bad || got.Remedy != want {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

type down struct {
	containers.Engine
	err error
}

func (d down) Info(context.Context) (containers.Info, error) { return containers.Info{}, d.err }
