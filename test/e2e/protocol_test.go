package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestProtocol runs the upgrade protocol with small services through success, every
// kind of failure, and drift, on each engine.
func TestProtocol(t *testing.T) {
	onEach(t, scenarios)
}

// onDocker runs a test of what depends little on the engine on Docker, and in make test-long on
// each engine.
func onDocker(t *testing.T, test func(*testing.T, *protocol)) {
	if nodetest.Long() {
		onEach(t, test)
		return
	}
	docker(t, test)
}

func docker(t *testing.T, test func(*testing.T, *protocol)) {
	t.Run("docker", func(t *testing.T) {
		test(t, &protocol{engine: nodetest.OnDocker(machine.Dockerd(t)), registry: machine.NewRegistry(t)})
	})
}

// onEach runs a test on each engine.
func onEach(t *testing.T, test func(*testing.T, *protocol)) {
	docker(t, test)
	t.Run("containerd", func(t *testing.T) {
		test(t, &protocol{engine: nodetest.OnContainerd(machine.NewContainerd(t)), registry: machine.NewRegistry(t)})
	})
	if nodetest.WithPodman {
		t.Run("podman", func(t *testing.T) {
			registry := machine.NewRegistry(t)
			test(t, &protocol{engine: nodetest.OnPodman(machine.NewPodman(t, registry)), registry: registry})
		})
	}
}

func scenarios(t *testing.T, p *protocol) {
	for _, tag := range []string{"v1", "v2"} {
		pushTiny(t, p.registry, "test/tiny", tag)
	}
	pushTiny(t, p.registry, "test/tiny", "broken", func(c *v1.Config) { c.Entrypoint = []string{"/no/such/program"} })
	for name, scenario := range map[string]func(*testing.T, *protocol){
		"bootstrap creates the first generation once":                bootstrapOnce,
		"a changed file replaces the services that read it":          changedFile,
		"an upgrade and a rollback replace image and files":          upgradeAndRollback,
		"a hotfix stays until the node file has it or it is dropped": hotfixStays,
		"services are added and removed":                             addAndRemove,
		"a group of services is cut over as one":                     group,
		"a service is replaced with its dependencies":                replacedWithDependencies,
		"a changed probe replaces nothing":                           changedProbe,
		"a program that does not exist fails the stage step":         brokenEntrypoint,
		"a service that fails is rolled back":                        failingService,
		"a service that exits during verification is rolled back":    dyingService,
		"a service that never answers is rolled back":                silentService,
		"a service that ignores its stop signal is killed":           stubbornService,
		"an image that cannot be pulled changes nothing":             missingImage,
		"an interrupt by the operator rolls back":                    interrupted,
		"kollet is killed while a service stops":                     killedInStop,
		"a second kollet process is refused":                         locked,
		"a replaced container that is started again rolls it back":   startedAgain,
		"drift is reported, and repaired by the next upgrade":        drift,
		"old generations are removed with their images":              collection,
		"images of upgrades that failed are removed":                 collectionOfGivenUp,
		"a moved tag is noticed with --pull always":                  movedTag,
		"directories and patterns of the host are copied once":       sourcesAreCopied,
		"an image that is built like Kolla's runs as it is":          kollaImages,
		"a restarted engine starts the services again":               engineRestart,
	} {
		t.Run(name, func(t *testing.T) { scenario(t, p) })
	}
}

type protocol struct {
	engine   nodetest.Engine
	registry *machine.Registry
}

// node returns a node whose node file has two services, alpha and beta. beta depends
// on alpha.
func (p *protocol) node(t *testing.T) *testNode {
	n := newNodeOn(t, p.engine)
	p.configure(n, "v1", "one", "")
	n.Write("/etc/kollet/secrets/token", "s3cr3t-t0ken\n")
	return n
}

// configure writes the node file: tag is the tag of alpha's image, word is in its
// config file, and more is added to the services.
func (p *protocol) configure(n *testNode, tag, word, more string) {
	n.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: v1}
vars: {word: %q}
secrets: {token: {file: /etc/kollet/secrets/token}}
services:
  alpha:
    image: tiny:%s
    command: [serve, "127.0.0.1:7001", /etc/alpha.conf]
    stop_grace_period: 5s
    config:
      - {content: "{{ .vars.word }}\ntoken = {{ secret \"token\" }}\n", dest: /etc/alpha.conf, owner: root, perm: "0600"}
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:7001"], start_period: 30s, stable: 200ms, interval: 50ms}]
  beta:
    image: tiny
    command: [serve, "127.0.0.1:7002", /etc/beta.conf]
    user: nova
    depends_on: [alpha]
    config:
      - {content: "beta", dest: /etc/beta.conf, owner: nova, perm: "0600"}
    healthcheck: [{tcp: "127.0.0.1:7002", start_period: 30s, stable: 200ms, interval: 50ms}]
%s`, p.engine.Name, p.registry.Addr, word, tag, more))
}

// alphaStarts is alpha's start period in that file, the first one.
const alphaStarts = "start_period: 30s"

func bootstrapOnce(t *testing.T, p *protocol) {
	n := p.node(t)
	var r upgrade.Result
	n.Ask(&r, "bootstrap")
	if r.Outcome != journal.Committed || r.To != 1 {
		t.Fatalf("bootstrap: %+v", r)
	}
	n.Healthy(1)
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Fatalf("alpha answers %q", word)
	}
	for _, name := range []string{"alpha", "beta"} {
		c, err := n.Engine.Inspect(context.Background(), name)
		check(t, err)
		if c.Spec.Restart != containers.RestartAlways {
			t.Fatalf("%s has restart policy %s", name, c.Spec.Restart)
		}
	}
	before := n.Service("alpha")
	n.Ask(&r, "bootstrap")
	if r.Outcome != journal.Unchanged {
		t.Fatalf("second bootstrap: %+v", r)
	}
	nodetest.Same(t, before, n.Service("alpha"))
	n.Must(0, "verify")
	contains(t, n.Must(0, "plan", "--exit-code").All(), "")
}

func changedFile(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	beta := n.Service("beta")
	p.configure(n, "v1", "two", "")
	plan := n.Must(3, "plan", "--exit-code")
	contains(t, plan.Stdout, "alpha", "-one", "+two")
	if strings.Contains(plan.All(), "s3cr3t") {
		t.Fatalf("the plan shows a secret:\n%s", plan.All())
	}
	n.Must(0, "upgrade")
	n.Healthy(2)
	nodetest.Same(t, beta, n.Service("beta"))
	if word := answer(t, "127.0.0.1:7001"); word != "two" {
		t.Fatalf("alpha answers %q", word)
	}
	// The plan reports that a secret changed, and does not show it.
	n.Write("/etc/kollet/secrets/token", "an0ther-t0ken\n")
	plan = n.Must(3, "plan", "--exit-code")
	contains(t, plan.Stdout, "alpha", "/etc/alpha.conf", "secret")
	n.Must(0, "upgrade")
	nodetest.Same(t, beta, n.Service("beta"))
	n.Must(0, "verify")
}

func upgradeAndRollback(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	first := n.Service("alpha")
	p.configure(n, "v2", "two", "")
	n.Must(0, "upgrade")
	second := n.Service("alpha")
	if second.ImageID == first.ImageID || answer(t, "127.0.0.1:7001") != "two" {
		t.Fatalf("not upgraded: %+v", second)
	}
	var r upgrade.Result
	n.Ask(&r, "rollback")
	if r.Outcome != journal.Committed || r.To != 3 {
		t.Fatalf("rollback: %+v", r)
	}
	n.Healthy(3)
	if back := n.Service("alpha"); back.ImageID != first.ImageID || answer(t, "127.0.0.1:7001") != "one" {
		t.Fatalf("not rolled back: %+v", back)
	}
	n.Must(0, "rollback", "2")
	if n.Service("alpha").ImageID != second.ImageID || answer(t, "127.0.0.1:7001") != "two" {
		t.Fatal("the node is not on generation 2")
	}
	n.Must(0, "verify")
	var history []agent.Entry
	n.Ask(&history, "history")
	if len(history) != 4 || history[0].Reason != "rollback to 2" || !history[0].Current || history[1].Outcome != journal.Committed {
		t.Fatalf("history: %+v", history)
	}
	gap := history[0].Gaps["alpha"]
	if gap.Opened <= 0 || gap.Healthy < gap.Opened {
		t.Fatalf("gaps: %+v", history[0].Gaps)
	}
	contains(t, n.Must(2, "rollback", "77").Stderr, "generation 77")
}

const gamma = `  gamma:
    image: tiny
    command: [serve, "127.0.0.1:7003"]
    healthcheck: [{tcp: "127.0.0.1:7003", start_period: 30s, stable: 100ms}]
`

func addAndRemove(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha := n.Service("alpha")
	p.configure(n, "v1", "one", gamma)
	n.Must(0, "upgrade")
	n.Healthy(2)
	nodetest.Same(t, alpha, n.Service("alpha"))
	answer(t, "127.0.0.1:7003")
	p.configure(n, "v1", "one", "")
	contains(t, n.Must(3, "plan", "--exit-code").Stdout, "gamma", "remove")
	n.Must(0, "upgrade")
	if s := n.Healthy(3); len(s.Services) != 2 {
		t.Fatalf("gamma is still there: %+v", s)
	}
	if _, err := n.Engine.Inspect(context.Background(), "gamma"); err == nil {
		t.Fatal("gamma's container is still there")
	}
	n.Must(0, "rollback")
	answer(t, "127.0.0.1:7003")
}

func group(t *testing.T, p *protocol) {
	n := p.node(t)
	grouped := func(tag, more string) {
		p.configure(n, tag, "one", strings.Replace(more, "    health", "    group: pair\n    health", 1))
		text := strings.Replace(n.read("/etc/kollet/node.yaml"), "  alpha:\n", "  alpha:\n    group: pair\n", 1)
		n.Write("/etc/kollet/node.yaml", text)
	}
	grouped("v1", gamma)
	n.Must(0, "bootstrap")
	grouped("v2", strings.Replace(gamma, "image: tiny", "image: tiny:v2", 1))
	n.Must(0, "upgrade")
	n.Healthy(2)
	var e []agent.Entry
	n.Ask(&e, "history")
	found := false
	for _, step := range e[0].Steps {
		found = found || step.Step == "cut over alpha, gamma"
	}
	if !found {
		t.Fatalf("steps: %+v", e[0].Steps)
	}
}

// As libvirt and nova-compute: beta stops before alpha, and starts after it.
func replacedWithDependencies(t *testing.T, p *protocol) {
	n := p.node(t)
	configure := func(tag, more string) {
		p.configure(n, tag, "one", "")
		text := strings.Replace(n.read("/etc/kollet/node.yaml"), "  alpha:\n", "  alpha:\n    group: pair\n"+more, 1)
		text = strings.Replace(text, "  beta:\n", "  beta:\n    group: pair\n    replace_with_dependencies: true\n", 1)
		n.Write("/etc/kollet/node.yaml", text)
	}
	configure("v1", "")
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	configure("v2", "")
	contains(t, n.Must(0, "plan").Stdout, "alpha, which it depends on, is replaced")
	var r upgrade.Result
	n.Ask(&r, "upgrade")
	n.Healthy(2)
	if n.Service("alpha").Container == alpha.Container || n.Service("beta").Container == beta.Container {
		t.Fatalf("not both were replaced: %+v", n.Status())
	}
	if a, b := r.Gaps["alpha"], r.Gaps["beta"]; b.Healthy <= a.Healthy {
		t.Errorf("beta was away for a shorter time than alpha, which stopped later and started earlier: %+v", r.Gaps)
	}
	n.Must(0, "verify")

	// A failure brings both back.
	alpha, beta = n.Service("alpha"), n.Service("beta")
	configure("v1", "    environment: {PATH: /bin}\n    entrypoint: [/bin/tiny, fail, \"the disk is gone\"]\n")
	contains(t, n.Must(1, "upgrade").Stderr, "the disk is gone", "back on generation 2")
	n.Healthy(2)
	if n.Service("alpha").Container != alpha.Container || n.Service("beta").Container != beta.Container {
		t.Fatalf("other containers run: %+v", n.Status())
	}
	n.Must(0, "verify")

	// beta alone.
	configure("v2", "")
	alpha = n.Service("alpha")
	text := strings.Replace(n.read("/etc/kollet/node.yaml"), `content: "beta"`, `content: "changed"`, 1)
	n.Write("/etc/kollet/node.yaml", text)
	n.Must(0, "upgrade")
	nodetest.Same(t, alpha, n.Service("alpha"))
}

func changedProbe(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	data, err := os.ReadFile(n.Path("/etc/kollet/node.yaml"))
	check(t, err)
	n.Write("/etc/kollet/node.yaml", strings.Replace(string(data), alphaStarts, "start_period: 31s", 1))
	n.Must(3, "plan", "--exit-code")
	n.Must(0, "upgrade")
	n.Healthy(2)
	nodetest.Same(t, alpha, n.Service("alpha"))
	nodetest.Same(t, beta, n.Service("beta"))
}

// untouched requires that the failed upgrade changed no running service, and that the
// next upgrade succeeds.
func untouched(t *testing.T, p *protocol, n *testNode, alpha, beta agent.ServiceStatus) {
	t.Helper()
	n.Healthy(alpha.Generation)
	nodetest.Same(t, alpha, n.Service("alpha"))
	nodetest.Same(t, beta, n.Service("beta"))
	n.Must(0, "verify")
	p.onlyTheServices(t, n)
	p.configure(n, "v2", "fine", "")
	n.Must(0, "upgrade")
	n.Must(0, "verify")
}

// onlyTheServices requires that the node has exactly the containers of its two services.
func (p *protocol) onlyTheServices(t *testing.T, n *testNode) {
	t.Helper()
	all, err := n.Engine.List(context.Background(), map[string]string{node.LabelNode: filepath.Join(n.Root, node.StateDir)})
	check(t, err)
	if len(all) != 2 {
		for _, c := range all {
			t.Logf("%s: %s", c.Spec.Name, c.State)
		}
		t.Fatalf("%d containers are left, want 2", len(all))
	}
}
