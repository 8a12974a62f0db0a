package e2e

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestHiddenContainers has an engine lose sight of containers that run. An upgrade would start
// their services a second time.
func TestHiddenContainers(t *testing.T) {
	t.Run("docker", func(t *testing.T) {
		d := machine.Dockerd(t, machine.LiveRestore())
		p := &protocol{engine: nodetest.OnDocker(d), registry: machine.NewRegistry(t)}
		move := func(from, to string) {
			d.Stop()
			check(t, os.Rename(d.Root+"/"+from, d.Root+"/"+to))
			d.Start()
		}
		hiddenContainers(t, p, func(n *testNode, do func(*testNode)) {
			move("containers", "hidden")
			do(n)
			check(t, os.RemoveAll(d.Root+"/containers"))
			move("hidden", "containers")
			// A container that an operator started is listed, though it is not kollet's.
			out, err := exec.Command("docker", "-H", d.Socket, "run", "--detach", "--network", "host", "--volumes-from", "alpha",
				p.registry.Addr+"/test/tiny:v1", "serve", "127.0.0.1:7003", "/etc/hostname").CombinedOutput()
			if err != nil {
				t.Fatalf("start a container: %v\n%s", err, out)
			}
			answer(t, "127.0.0.1:7003")
		})
	})
	if nodetest.WithPodman {
		t.Run("podman", func(t *testing.T) {
			registry := machine.NewRegistry(t)
			p := &protocol{engine: nodetest.OnPodman(machine.NewPodman(t, registry)), registry: registry}
			hiddenContainers(t, p, func(n *testNode, do func(*testNode)) { // another data directory
				node, hidden := *n.Node, *n
				node.Socket = machine.NewPodman(t, registry).Socket
				hidden.Node = &node
				do(&hidden)
			})
		})
	}
	t.Run("containerd", func(t *testing.T) {
		p := &protocol{engine: nodetest.OnContainerd(machine.NewContainerd(t)), registry: machine.NewRegistry(t)}
		hiddenContainers(t, p, func(n *testNode, do func(*testNode)) {
			node, hidden := *n.Node, *n
			node.Socket = strings.Replace(p.engine.Address, "namespace=", "namespace=another-", 1)
			hidden.Node = &node
			do(&hidden)
		})
	})
}

func hiddenContainers(t *testing.T, p *protocol, hide func(*testNode, func(*testNode))) {
	for _, tag := range []string{"v1", "v2"} {
		pushTiny(t, p.registry, "test/tiny", tag)
	}
	n := p.node(t)
	n.Must(0, "bootstrap")
	alpha := n.Service("alpha")
	p.configure(n, "v2", "two", "")
	hide(n, func(n *testNode) {
		o := n.Must(1, "upgrade", "--force")
		contains(t, o.Stderr, "runs in container", "which "+p.engine.Name+" does not list", "nothing was touched")
		contains(t, n.Must(1, "verify").Stdout, "container alpha (", "does not list it")
		if word := answer(t, "127.0.0.1:7001"); word != "one" {
			t.Errorf("alpha answers %q", word)
		}
	})
	nodetest.Same(t, alpha, n.Service("alpha"))
	n.Must(0, "upgrade")
	n.Healthy(3)
	n.Must(0, "verify")
}

// TestAnotherEngine runs commands on another engine than that on which an upgrade was interrupted.
// They undo nothing while its containers run, and a recovery on the right engine rolls it back.
func TestAnotherEngine(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		var another string
		switch p.engine.Name {
		case "docker":
			another = machine.Dockerd(t).Socket
		case "containerd":
			another = strings.Replace(p.engine.Address, "namespace=", "namespace=another-", 1)
		case "podman":
			another = machine.NewPodman(t, p.registry).Socket
		}
		for _, tag := range []string{"v1", "v2"} {
			pushTiny(t, p.registry, "test/tiny", tag)
		}
		interrupted := func(t *testing.T) *testNode {
			n := p.node(t)
			n.Must(0, "bootstrap")
			p.configure(n, "v2", "two", "")
			if o, killed := n.KilledAt(afterCutover, "upgrade"); !killed {
				t.Fatalf("not killed: %s", o.All())
			}
			return n
		}
		t.Run("while the containers run", func(t *testing.T) {
			n := interrupted(t)
			n.Socket = another
			for _, command := range []string{"recover", "upgrade", "gc"} {
				contains(t, n.Must(4, command).Stderr, "nothing was recovered", "which "+p.engine.Name+" does not list")
			}
			n.Socket = p.engine.Address
			n.Must(0, "recover")
			n.Healthy(1)
			n.Must(0, "verify")
			if word := answer(t, "127.0.0.1:7001"); word != "one" {
				t.Errorf("alpha answers %q", word)
			}
			n.Must(0, "gc")
			p.onlyTheServices(t, n)
		})
		t.Run("after the containers were lost", func(t *testing.T) {
			n := interrupted(t)
			n.Clear()
			n.Must(4, "recover")
			n.Must(0, "upgrade")
			n.Healthy(3)
			n.Must(0, "verify")
		})
	})
}

// Without systemd libvirt moves its guests out of a container's cgroups, but for those that it does
// not use. A guest keeps running in them when the container is removed, and is no hidden container.
func TestGuestOfRemovedContainer(t *testing.T) {
	d := machine.Dockerd(t)
	p := &protocol{engine: nodetest.OnDocker(d), registry: machine.NewRegistry(t)}
	for _, tag := range []string{"v1", "v2"} {
		pushTiny(t, p.registry, "test/tiny", tag)
	}
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "bootstrap")
	first := n.guests()[firstGuest]
	groups := machine.NewCgroups(t)
	var used []string
	for _, hierarchy := range groups.Hierarchies() {
		if hierarchy != "" && hierarchy != "pids" && !strings.HasPrefix(hierarchy, "name=") {
			used = append(used, hierarchy)
		}
	}
	if len(used) == 0 {
		t.Skip("with cgroup v2 libvirt moves a guest as a whole")
	}
	groups.Put(first.PID, "machine", used...)
	run(t, exec.Command("docker", "--host", d.Socket, "rm", "--force", "alpha"))
	p.hosting(n, "v2", thirdGuest, answers)
	n.Must(0, "upgrade", "--force")
	if now := n.guests()[firstGuest]; now.PID != first.PID {
		t.Errorf("the guest was process %d, and is %+v", first.PID, now)
	}
	check(t, syscall.Kill(first.PID, syscall.SIGKILL))
}
