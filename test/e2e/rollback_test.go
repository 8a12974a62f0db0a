package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/nodetest"
)

func brokenEntrypoint(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.configure(n, "broken", "two", "")
	o := n.Must(1, "upgrade")
	contains(t, o.Stderr, "stage alpha", "/no/such/program", "nothing was touched")
	untouched(t, p, n, alpha, beta)
}

func failingService(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.replaceCommand(n, "two", `command: [fail, "the disk is gone", /etc/alpha.conf]`)
	o := n.Must(1, "upgrade")
	contains(t, o.Stderr, "alpha", "exit status 3", "the disk is gone", "token = <secret token>", "back on generation 1")
	if strings.Contains(o.All(), "s3cr3t") {
		t.Fatalf("a secret is shown:\n%s", o.All())
	}
	rolledBack(t, p, n, alpha, beta)
	contains(t, n.Must(0, "history").Stdout, "rolled back")
}

// rolledBack requires that the old containers run again, and that the next upgrade
// succeeds.
func rolledBack(t *testing.T, p *protocol, n *testNode, alpha, beta agent.ServiceStatus) {
	t.Helper()
	n.Healthy(1)
	if now := n.Service("alpha"); now.Container != alpha.Container {
		t.Fatalf("alpha runs in another container: %+v", now)
	}
	nodetest.Same(t, beta, n.Service("beta"))
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Fatalf("alpha answers %q", word)
	}
	n.Must(0, "verify")
	p.onlyTheServices(t, n)
	p.configure(n, "v2", "fine", "")
	n.Must(0, "upgrade")
	n.Must(0, "verify")
}

// replaceCommand changes the command of alpha.
func (p *protocol) replaceCommand(n *testNode, word, command string) {
	n.T.Helper()
	p.configure(n, "v2", word, "")
	data, err := os.ReadFile(n.Path("/etc/kollet/node.yaml"))
	check(n.T, err)
	n.Write("/etc/kollet/node.yaml", strings.Replace(string(data), `command: [serve, "127.0.0.1:7001", /etc/alpha.conf]`, command, 1))
}

func dyingService(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.replaceCommand(n, "two", `command: [leave, "127.0.0.1:7001", 100ms]`)
	contains(t, n.Must(1, "upgrade").Stderr, "alpha", "exit status 4", "tiny leaves")
	rolledBack(t, p, n, alpha, beta)
}

func silentService(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.replaceCommand(n, "two", `command: [sulk]`)
	n.Write(node.DefaultNodeFile, strings.Replace(n.read(node.DefaultNodeFile), alphaStarts, "start_period: 5s", 1))
	contains(t, n.Must(1, "upgrade").Stderr, "alpha", "not healthy within 5s", "127.0.0.1:7001")
	rolledBack(t, p, n, alpha, beta)
}

func stubbornService(t *testing.T, p *protocol) {
	n := p.node(t)
	stay := strings.NewReplacer("gamma", "stubborn", `[serve, "127.0.0.1:7003"]`, "[stay]", `    healthcheck: [{tcp: "127.0.0.1:7003", start_period: 30s, stable: 100ms}]`, "    stop_grace_period: 300ms").Replace(gamma)
	p.configure(n, "v1", "one", stay)
	n.Must(0, "bootstrap")
	p.configure(n, "v1", "one", strings.Replace(stay, "image: tiny", "image: tiny:v2", 1))
	contains(t, n.Must(0, "upgrade").Stderr, "stubborn", "killed")
	n.Healthy(2)
}

func missingImage(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	p.configure(n, "v9", "two", "")
	contains(t, n.Must(1, "upgrade").Stderr, "pull alpha", "v9", "nothing was touched")
	pushTiny(t, p.registry, "test/tiny", "v3")
	_, err := n.Engine.Pull(context.Background(), p.registry.Addr+"/test/tiny:v2", nil)
	check(t, err)
	p.registry.Stop()
	defer p.registry.Start()
	p.configure(n, "v3", "two", "")
	contains(t, n.Must(1, "upgrade").Stderr, "pull alpha", p.registry.Addr, "nothing was touched")
	// An image that the engine already has needs no registry.
	untouched(t, p, n, alpha, beta)
}
