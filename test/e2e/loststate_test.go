package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/nodetest"
)

// TestLostState checks what happens to a node whose state directory is lost, or restored from
// an older copy, while its containers run.
func TestLostState(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		pushTiny(t, p.registry, "test/tiny", "v2")
		t.Run("a command that fails leaves the containers running", func(t *testing.T) { lostAndFails(t, p) })
		t.Run("an upgrade replaces the containers", func(t *testing.T) { lostAndReplaced(t, p) })
		t.Run("an upgrade replaces the containers after an older copy was restored", func(t *testing.T) { restoredAndReplaced(t, p) })
		t.Run("the link to the current generation is lost", func(t *testing.T) { linkLost(t, p) })
		t.Run("files that can be made again are lost", func(t *testing.T) { filesRestored(t, p) })
		t.Run("the config files of a service are lost", func(t *testing.T) { configLost(t, p) })
		t.Run("the current generation is lost", func(t *testing.T) { currentLost(t, p) })
		t.Run("guests keep running when it is lost", func(t *testing.T) { lostWithGuests(t, p) })
		t.Run("guests keep running when an older copy is restored", func(t *testing.T) { restoredWithGuests(t, p) })
		t.Run("a guest whose state directory was moved is not touched", func(t *testing.T) { movedWithGuests(t, p) })
	})
}

// lose removes the state directory.
func (n *testNode) lose() {
	n.T.Helper()
	check(n.T, os.RemoveAll(n.Path(node.StateDir)))
}

// copyState copies the state directory, and returns what restores the copy.
func (n *testNode) copyState() (restore func()) {
	n.T.Helper()
	run(n.T, exec.Command("cp", "-a", n.Path(node.StateDir), n.Path("/backup")))
	return func() {
		n.T.Helper()
		n.lose()
		check(n.T, os.Rename(n.Path("/backup"), n.Path(node.StateDir)))
	}
}

// inspect returns the container of this name, which has to run.
func (n *testNode) inspect(name string) containers.Container {
	n.T.Helper()
	c, err := n.Engine.Inspect(context.Background(), name)
	check(n.T, err)
	if c.State != containers.StateRunning {
		n.T.Fatalf("%s is %s", name, c.State)
	}
	return c
}

// leaves requires that a command fails, and that the same containers serve before and after it.
func (n *testNode) leaves(code int, args ...string) outcome {
	n.T.Helper()
	alpha, beta := n.inspect("alpha"), n.inspect("beta")
	o := n.Must(code, args...)
	if a, b := n.inspect("alpha"), n.inspect("beta"); a.ID != alpha.ID || b.ID != beta.ID {
		n.T.Errorf("other containers run: alpha %.12s was %.12s, beta %.12s was %.12s", a.ID, alpha.ID, b.ID, beta.ID)
	}
	if word := answer(n.T, "127.0.0.1:7001"); word != "one" {
		n.T.Errorf("alpha answers %q", word)
	}
	return o
}

func lostAndFails(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	n.lose()
	p.configure(n, "v2", "two", "")
	contains(t, n.leaves(1, "bootstrap").All(), "nothing was touched", "alpha of generation 1, beta of generation 1", "restore", "`kollet upgrade --force` continues")
	p.configure(n, "v1", "two", "    entrypoint: [/no/such/program]\n")
	contains(t, n.leaves(1, "upgrade", "--force").All(), "nothing was touched: stage beta")
}

func lostAndReplaced(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	p.configure(n, "v1", "two", "")
	n.Must(0, "upgrade")
	n.lose()
	p.configure(n, "v2", "three", "")
	n.Must(0, "upgrade", "--force")
	n.Healthy(3) // generations 1 and 2 had containers
	n.Must(0, "verify")
	if word := answer(t, "127.0.0.1:7001"); word != "three" {
		t.Errorf("alpha answers %q", word)
	}
	all, err := n.Engine.List(context.Background(), map[string]string{node.LabelNode: n.Path(node.StateDir)})
	check(t, err)
	if len(all) != 2 || n.inspect("alpha").Spec.Labels[node.LabelGeneration] != "3" || n.inspect("beta").Spec.Labels[node.LabelGeneration] != "3" {
		t.Errorf("the containers are %+v", all)
	}
}

func restoredAndReplaced(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	restore := n.copyState()
	p.configure(n, "v2", "one", "")
	n.Must(0, "upgrade")
	restore()
	p.configure(n, "v1", "three", "")
	contains(t, n.leaves(1, "upgrade").All(), "nothing was touched", "alpha of generation 2")
	n.Must(0, "upgrade", "--force")
	n.Healthy(4) // the refused upgrade was to generation 3
	n.Must(0, "verify")
}

// The generations are there, and the journals know which of them runs.
func linkLost(t *testing.T, p *protocol) {
	n := p.node(t)
	link := n.Path(node.StateDir + "/current")
	n.Must(0, "bootstrap")
	alpha := n.Service("alpha")
	check(t, os.Remove(link))
	contains(t, n.Must(0, "status").Stdout, "generation 1", "the journals say that generation 1 runs")
	contains(t, n.leaves(0, "bootstrap").All(), "points to generation 1 again")
	n.Healthy(1)
	nodetest.Same(t, alpha, n.Service("alpha"))

	check(t, os.Remove(link))
	p.configure(n, "v2", "two", "    entrypoint: [/no/such/program]\n")
	contains(t, n.leaves(1, "upgrade").All(), "points to generation 1 again", "nothing was touched: stage beta")
	n.Healthy(1)
	check(t, os.Remove(link))
	p.configure(n, "v2", "two", "")
	n.Must(0, "upgrade")
	n.Healthy(3)
	check(t, os.Remove(link))
	n.Must(0, "rollback")
	n.Healthy(4)
	n.Must(0, "verify")
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Errorf("alpha answers %q", word)
	}
}

// currentLost follows the remedy that kollet names if the generation that runs is lost.
func currentLost(t *testing.T, p *protocol) {
	for _, lose := range []string{"generations", "generations/CURRENT", "generations/CURRENT/manifest.json"} {
		for _, upgrades := range []int{0, 1} {
			for _, interrupted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s after %d upgrades, interrupted: %v", lose, upgrades, interrupted), func(t *testing.T) {
					n := p.node(t)
					n.Must(0, "bootstrap")
					if upgrades > 0 {
						p.configure(n, "v1", "more", "")
						n.Must(0, "upgrade")
					}
					p.configure(n, "v2", "two", "")
					if interrupted {
						if o, killed := n.KilledAt(afterCutover, "upgrade"); !killed {
							t.Fatalf("not killed: %s", o.All())
						}
					}
					lost := strings.ReplaceAll(lose, "CURRENT", fmt.Sprintf("%06d", upgrades+1))
					check(t, os.RemoveAll(n.Path(node.StateDir+"/"+lost)))
					n.followRemedy(n.Must(4, "upgrade", "--force").Stderr)
					n.Must(0, "verify")
					if word := answer(t, "127.0.0.1:7001"); word != "two" {
						t.Errorf("alpha answers %q", word)
					}
					all, err := n.Engine.List(context.Background(), map[string]string{node.LabelNode: n.Path(node.StateDir)})
					check(t, err)
					running := 0
					for _, c := range all {
						if !c.State.Stopped() {
							running++
						}
					}
					if running != 2 {
						t.Errorf("the containers are %+v", all)
					}
				})
			}
		}
	}
}

// followRemedy runs the commands that a message names.
func (n *testNode) followRemedy(message string) {
	n.T.Helper()
	_, remedy, found := strings.Cut(message, "restore it from a backup, or run ")
	if !found {
		n.T.Fatalf("no remedy: %s", message)
	}
	for i, command := range strings.Split(remedy, "`") {
		switch args := strings.Fields(command); {
		case i%2 == 0: // between two commands
		case args[0] == "kollet":
			n.Must(0, args[1:]...)
		default:
			run(n.T, exec.Command(args[0], args[1:]...))
		}
	}
}

func lostWithGuests(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "bootstrap")
	n.lose()
	if found := n.guests(); len(found) != 1 || found[firstGuest].Generation != 1 {
		t.Fatalf("guests: %+v", found)
	}
	p.hosting(n, "v2", secondGuest, answers)
	contains(t, n.Must(1, "bootstrap").All(), "nothing was touched", "alpha of generation 1, beta of generation 1")
	contains(t, n.Must(0, "upgrade", "--force").Stdout, "kept running")
	n.keeps("alpha-g1")
	n.Must(0, "verify")
	n.endGuests(firstGuest, secondGuest)
}

// The older copy is of a time when alpha started no guests.
func restoredWithGuests(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	n.Write(node.DefaultNodeFile, fmt.Sprintf("profile: none\nengine: %s\nimages: {registry: %s/test, tag: v1}\nservices: {alpha: {image: tiny, pid: host, command: [serve, \"127.0.0.1:7001\"]}}\n", p.engine.Name, p.registry.Addr))
	n.Must(0, "bootstrap")
	restore := n.copyState()
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "upgrade")
	restore()
	p.hosting(n, "v2", secondGuest, answers)
	contains(t, n.Must(1, "upgrade").All(), "nothing was touched", "alpha of generation 2")
	contains(t, n.Must(0, "upgrade", "--force").Stdout, "kept running")
	n.keeps("alpha-g2")
	n.Must(0, "verify")
	n.endGuests(firstGuest, secondGuest)
}

// keeps requires that a container was stopped and kept for its guests, also by gc.
func (n *testNode) keeps(name string) {
	n.T.Helper()
	n.Must(0, "gc")
	c, err := n.Engine.Inspect(context.Background(), name)
	check(n.T, err)
	if c.State != containers.StateExited {
		n.T.Errorf("%s is %s", name, c.State)
	}
}

func movedWithGuests(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "bootstrap")
	check(t, os.Rename(n.Path(node.StateDir), n.Path("/moved")))
	p.hosting(n, "v2", secondGuest, answers)
	for _, args := range [][]string{{"bootstrap"}, {"upgrade", "--force"}} {
		contains(t, n.Must(1, args...).All(), "nothing was touched", firstGuest, "in container alpha", "move it back")
		n.inspect("alpha")
	}
	n.lose()
	check(t, os.Rename(n.Path("/moved"), n.Path(node.StateDir)))
	contains(t, n.Must(0, "upgrade", "--force").Stdout, "1 guest kept running")
	n.endGuests(firstGuest, secondGuest)
}

// What containers that run need to be started again, and what does not depend on the node file,
// is made again before anything is stopped: a rollback starts the old container.
func filesRestored(t *testing.T, p *protocol) {
	for name, lose := range map[string]func(dir string) error{
		"the gate":              func(dir string) error { return os.RemoveAll(dir + "/alpha/gate") },
		"the gate is closed":    func(dir string) error { return os.Remove(dir + "/alpha/gate/open") },
		"kollet-start":          func(dir string) error { return os.Remove(dir + "/kollet-start") },
		"kollet-start is empty": func(dir string) error { return os.Truncate(dir+"/kollet-start", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			n := p.node(t)
			n.Must(0, "bootstrap")
			check(t, lose(n.Path(node.StateDir+"/generations/000001")))
			contains(t, n.Must(1, "verify").All(), "alpha", "missing file", "generations/000001/")
			p.replaceCommand(n, "two", "command: [fail, x]")
			contains(t, n.Must(1, "upgrade").All(), "it was restored", "the node is back on generation 1")
			if word := answer(t, "127.0.0.1:7001"); word != "one" {
				t.Errorf("alpha answers %q", word)
			}
			n.Must(0, "verify")
		})
	}
}

func configLost(t *testing.T, p *protocol) {
	n := p.node(t)
	n.Must(0, "bootstrap")
	check(t, os.RemoveAll(n.Path(node.StateDir+"/generations/000001/alpha/config")))
	p.configure(n, "v2", "two", "")
	contains(t, n.leaves(1, "upgrade").All(), "nothing was touched", "alpha of generation 1 (000001/alpha/config)", "`kollet upgrade --force` continues")
	n.Must(0, "upgrade", "--force")
	n.Must(0, "verify")
}
