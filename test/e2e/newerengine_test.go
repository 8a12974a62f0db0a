package e2e

import (
	"os"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// newerVar has directories with the programs of a newer engine, as in PATH. make test-engines
// builds them.
const newerVar = "KOLLET_TEST_NEWER_ENGINE"

// TestNewerEngine upgrades the engine of a node, while services run and while they do not.
func TestNewerEngine(t *testing.T) {
	path := os.Getenv(newerVar)
	if path == "" {
		t.Skip("needs a newer engine; make test-engines builds and runs it")
	}
	docker := func(options ...machine.DockerOption) func(*testing.T) {
		return func(t *testing.T) {
			d := machine.Dockerd(t, options...)
			p := &protocol{engine: nodetest.OnDocker(d), registry: machine.NewRegistry(t)}
			engineUpgrade(t, p, len(options) > 0, func() { d.Stop(); d.Use(path); d.Start() })
		}
	}
	t.Run("docker", func(t *testing.T) {
		t.Run("services run", docker(machine.LiveRestore()))
		t.Run("services stop", docker())
	})
	t.Run("containerd", func(t *testing.T) {
		c := machine.NewContainerd(t)
		p := &protocol{engine: nodetest.OnContainerd(c), registry: machine.NewRegistry(t)}
		engineUpgrade(t, p, true, func() { c.Stop(); c.Use(path); c.Start() })
	})
}

// engineUpgrade has generations of both engines: after the engine's upgrade there is no drift
// and nothing to do, a rollback leads to a generation from before, and an upgrade works.
func engineUpgrade(t *testing.T, p *protocol, survive bool, newer func()) {
	for _, tag := range []string{"v1", "v2"} {
		pushTiny(t, p.registry, "test/tiny", tag)
	}
	n := p.node(t)
	n.Must(0, "bootstrap")
	p.configure(n, "v2", "two", "")
	n.Must(0, "upgrade")
	n.Healthy(2)
	alpha, beta := n.Service("alpha"), n.Service("beta")
	was, err := n.Engine.Info(t.Context())
	check(t, err)

	newer()
	is, err := n.Engine.Info(t.Context())
	check(t, err)
	if is.Version == was.Version {
		t.Fatalf("the engine is still %s", is.Version)
	}
	t.Logf("from %s %s to %s, image store %q", was.Name, was.Version, is.Version, is.Images)
	n.Await("the services are healthy", func() bool { return n.Status().Healthy })
	if survive {
		nodetest.Same(t, alpha, n.Service("alpha"))
		nodetest.Same(t, beta, n.Service("beta"))
	}
	n.Must(0, "verify")
	n.Must(0, "plan", "--exit-code")
	var r upgrade.Result
	if n.Ask(&r, "upgrade"); r.Outcome != journal.Unchanged {
		t.Errorf("an upgrade: %+v", r)
	}

	n.Must(0, "rollback")
	n.Healthy(3)
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Errorf("after the rollback alpha answers %q", word)
	}
	n.Must(0, "verify")
	n.Must(0, "upgrade")
	n.Healthy(4)
	if word := answer(t, "127.0.0.1:7001"); word != "two" {
		t.Errorf("after the upgrade alpha answers %q", word)
	}
	n.Must(0, "verify")
	n.Must(0, "gc")
}
