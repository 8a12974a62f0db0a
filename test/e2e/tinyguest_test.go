package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/nodetest"
)

// TestTinyGuests checks what happens to guests that tiny services start.
func TestTinyGuests(t *testing.T) {
	onEach(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		pushTiny(t, p.registry, "test/tiny", "v2")
		t.Run("one that is born in the last moment of the old libvirt keeps running", func(t *testing.T) { bornLast(t, p) })
		t.Run("one that is born in a rollback keeps running", func(t *testing.T) { bornInRollback(t, p) })
		t.Run("what another service calls a guest is none", func(t *testing.T) { pretended(t, p) })
		if p.engine.Docker != nil { // kollet finds no other container by its name on containerd
			t.Run("one in a container that was created manually keeps it", func(t *testing.T) { inManualContainer(t, p) })
		}
		t.Run("recovery protects them without the record of what is rolled back", func(t *testing.T) { damagedRecord(t, p) })
	})
}

const (
	firstGuest  = "8a1b0000-0000-4000-8000-000000000001"
	secondGuest = "8a1b0000-0000-4000-8000-000000000002"
	thirdGuest  = "8a1b0000-0000-4000-8000-000000000003"
)

// hosting writes a node file in which alpha starts a guest, and another one in its last
// moment if there are two, and beta has a command.
func (p *protocol) hosting(n *testNode, tag, guests, beta string) {
	n.Write(node.DefaultNodeFile, fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: %s}
services:
  alpha:
    image: tiny
    pid: host
    command: [host, "127.0.0.1:7001", %s]
    healthcheck: [{tcp: "127.0.0.1:7001", start_period: 30s, stable: 50ms, interval: 50ms}]
    guests: {list: [/bin/tiny, say, %s, %s, %s]}
  beta:
    image: tiny:v1
    command: %s
    healthcheck: [{tcp: "127.0.0.1:7002", start_period: 10m, stable: 50ms, interval: 50ms}]
`, p.engine.Name, p.registry.Addr, tag, guests, firstGuest, secondGuest, thirdGuest, beta))
}

// guests returns the node's guests by UUID.
func (n *testNode) guests() map[string]agent.Guest {
	n.T.Helper()
	var all []agent.Guest
	n.Ask(&all, "guests")
	found := map[string]agent.Guest{}
	for _, g := range all {
		found[g.UUID] = g
	}
	return found
}

const answers = `[serve, "127.0.0.1:7002"]`

// bornLast also runs a command in the container that is replaced. It serves no guest, so
// it ends, and is named before. What serves one keeps running, whatever its name is.
func bornLast(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest+", "+secondGuest, answers)
	n.Must(0, "bootstrap")
	bystander := n.Command("exec", "alpha", "--", "/bin/tiny", "sulk", firstGuest)
	check(t, bystander.Start())
	defer func() { _ = bystander.Process.Kill(); _ = bystander.Wait() }()
	pid := n.processOf("/bin/tiny", "sulk", firstGuest)
	contains(t, n.Must(0, "guests").Stdout, "kept with the guests when alpha is replaced: ", "wire (process ", "pane (process ", "clerk (process ",
		"end with alpha, as they serve no guest: tiny (process "+pid+")\n")
	p.hosting(n, "v2", thirdGuest, answers)
	o := n.Must(0, "upgrade", "--force") // tiny guests run on no QEMU whose version could be asked
	contains(t, o.All(), "these processes serve no guest and end with it: tiny (process "+pid+")\n")
	contains(t, n.Must(0, "history", "2").Stdout, "tiny (process "+pid+")")
	if left := nodetest.Processes("/bin/tiny", "sulk", firstGuest); len(left) > 0 {
		t.Errorf("the command in the old container still runs: processes %v", left)
	}
	n.Healthy(2)
	n.endGuests(firstGuest, secondGuest, thirdGuest)
}

func bornInRollback(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "bootstrap")
	p.hosting(n, "v2", secondGuest+", "+thirdGuest, "[fail, beta]")
	contains(t, n.Must(1, "upgrade", "--force").All(), "rolling back")
	n.Healthy(1)
	n.endGuests(firstGuest, secondGuest, thirdGuest)
}

// guestHelpers are the names of what serves a tiny guest: one has the other end of its
// socket, one shares its memory, and one is a daemon.
var guestHelpers = []string{"wire", "pane", "clerk"}

// processOf waits for the only process with these first arguments.
func (n *testNode) processOf(args ...string) string {
	n.T.Helper()
	for end := time.Now().Add(nodetest.Patience); ; time.Sleep(10 * time.Millisecond) {
		if found := nodetest.Processes(args...); len(found) == 1 {
			return found[0]
		} else if time.Now().After(end) {
			n.T.Fatalf("processes of %q: %v", args, found)
		}
	}
}

// endGuests requires that guests and what serves them run, and ends them.
func (n *testNode) endGuests(uuids ...string) {
	n.T.Helper()
	found := n.guests()
	for _, uuid := range uuids {
		g, ok := found[uuid]
		for _, name := range guestHelpers {
			if len(nodetest.Processes(name, uuid, strconv.Itoa(g.PID))) != 1 {
				n.T.Errorf("guest %+v lost its helper %s", g, name)
			}
		}
		if !ok {
			n.T.Errorf("guest %s is lost", uuid)
		} else if err := syscall.Kill(g.PID, syscall.SIGKILL); err != nil {
			n.T.Errorf("guest %+v is lost: %v", g, err)
		}
	}
}

func damagedRecord(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	p.hosting(n, "v1", firstGuest, `[serve, "127.0.0.1:7002"]`)
	n.Must(0, "bootstrap")
	p.hosting(n, "v1", firstGuest, `[serve, "127.0.0.1:7002", /proc/self/comm]`)
	contains(t, n.Must(0, "upgrade").Stdout, "1 guest kept running") // though no libvirt was replaced
	alpha := n.Service("alpha")
	p.hosting(n, "v2", secondGuest, "[sulk]")
	upgrade := n.Command("upgrade", "--force") // tiny guests run on no QEMU whose version could be asked
	check(t, upgrade.Start())
	awaitJournal(t, n, 3, "verify")
	before := n.guests()
	if len(before) != 2 {
		t.Fatalf("guests: %+v", before)
	}
	check(t, upgrade.Process.Signal(syscall.SIGKILL))
	_ = upgrade.Wait()
	check(t, os.WriteFile(n.Path(node.StateDir+"/generations/000003/manifest.json"), []byte("damaged"), 0o400))

	o := n.Must(0, "recover")
	contains(t, o.All(), "rolled back", "damaged record", "protecting all guests")
	n.Healthy(2)
	if now := n.Service("alpha"); now.Container != alpha.Container {
		t.Errorf("alpha runs in another container: %+v", now)
	}
	n.endGuests(firstGuest, secondGuest)
}

// inManualContainer has an operator put a container with a guest in the place of alpha, after its
// cutover and again after the commit.
func inManualContainer(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	docker := func(args ...string) {
		t.Helper()
		out, err := p.engine.Docker(args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", p.engine.Name, args, err, out)
		}
	}
	replace := func(address string) {
		docker("run", "--detach", "--name", "alpha", "--network", "host", "--pid", "host", p.registry.Addr+"/test/tiny:v1", "host", address, thirdGuest)
		n.processOf("qemu-system-x86_64", "-name", "guest="+thirdGuest)
	}
	p.hosting(n, "v1", firstGuest, answers)
	n.Must(0, "bootstrap")
	p.hosting(n, "v2", secondGuest, "[sulk]")
	var out strings.Builder
	upgrade := n.Command("upgrade", "--force") // tiny guests run on no QEMU whose version could be asked
	upgrade.Stdout, upgrade.Stderr = &out, &out
	check(t, upgrade.Start())
	awaitJournal(t, n, 2, "verify")
	docker("rename", "alpha", "alpha-old")
	replace("127.0.0.1:7009")
	docker("run", "--detach", "--name", "answers", "--network", "host", p.registry.Addr+"/test/tiny:v1", "serve", "127.0.0.1:7002") // for beta
	if err := upgrade.Wait(); err != nil {
		t.Errorf("upgrade: %v", err)
	}
	contains(t, out.String(), "alpha: warning: the container that was created manually under its name is alpha-", "guest "+thirdGuest)
	n.processOf("qemu-system-x86_64", "-name", "guest="+thirdGuest)
	docker("rm", "--force", "answers")
	for _, pid := range nodetest.Processes("qemu-system-x86_64", "-name", "guest="+thirdGuest) {
		number, err := strconv.Atoi(pid)
		check(t, err)
		check(t, syscall.Kill(number, syscall.SIGKILL))
	}

	docker("stop", "alpha")
	docker("rename", "alpha", "alpha-old2")
	replace("127.0.0.1:7010")
	p.hosting(n, "v1", secondGuest, answers)
	contains(t, n.Must(1, "upgrade", "--force").Stderr, "nothing was touched", "guest "+thirdGuest, "migrate the guest or shut it down")
	n.processOf("qemu-system-x86_64", "-name", "guest="+thirdGuest)
	docker("rm", "--force", "alpha")
	n.Must(0, "upgrade", "--force")
	n.endGuests(firstGuest)
}

// mallory has no privileges, and is not said to start guests.
func pretended(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	configure := func(tag string) {
		p.hosting(n, tag, firstGuest, answers)
		n.Write(node.DefaultNodeFile, n.read(node.DefaultNodeFile)+fmt.Sprintf("  mallory:\n    image: tiny:v1\n    network_mode: none\n    command: [host, \"127.0.0.1:7003\", %s]\n", secondGuest))
	}
	configure("v1")
	n.Must(0, "bootstrap")
	n.Await("mallory pretends", func() bool { return len(nodetest.Processes("qemu-system-x86_64", "-name", "guest="+secondGuest)) == 1 })
	if found := n.guests(); len(found) != 1 {
		t.Errorf("guests: %+v", found)
	}
	configure("v2")
	contains(t, n.Must(0, "upgrade", "--force").Stdout, "1 guest kept running")
	n.endGuests(firstGuest)
}
