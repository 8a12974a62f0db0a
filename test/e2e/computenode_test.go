package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
)

// Versions of the node's images that make builds. They differ only in a label.
const (
	oldVersion = "26.2.2"
	newVersion = "26.2.2-1"
)

const rabbitPassword = "r4bb1tPassw0rd"

// onBothComputes runs a test on a compute node with each engine. Both use the same
// registry and message broker.
func onBothComputes(t *testing.T, network string, test func(*testing.T, *compute)) {
	// systemd makes /run a shared mount on a real node. The test has its own /run.
	check(t, unix.Mount("", "/run", "", unix.MS_REC|unix.MS_SHARED, ""))
	registry := machine.NewRegistry(t, machine.RegistryDir(built(t, "registry")))
	rabbit := machine.NewRabbit(t, rabbitPassword)
	t.Run("docker", func(t *testing.T) {
		test(t, newCompute(t, network, onDocker(machine.Dockerd(t)), registry, rabbit))
	})
	t.Run("containerd", func(t *testing.T) {
		test(t, newCompute(t, network, onContainerd(machine.NewContainerd(t, machine.BoundedRuntime())), registry, rabbit))
	})
}

type compute struct {
	*testNode
	on       engineUnderTest
	registry *machine.Registry
	rabbit   *machine.Rabbit
	network  string // the profile's network
	services string // additional lines for nova-libvirt
	images   map[string]string
}

func newCompute(t *testing.T, network string, engine engineUnderTest, registry *machine.Registry, rabbit *machine.Rabbit) *compute {
	// The network agent derives its ID from the address of an interface.
	if out, err := exec.Command("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node1").CombinedOutput(); err != nil {
		t.Fatalf("make a network interface: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// On a real node these directories disappear with the machine.
		for _, dir := range []string{"/run/libvirt", "/run/openvswitch"} {
			check(t, os.RemoveAll(dir))
		}
		if out, err := exec.Command("ip", "link", "delete", "node0").CombinedOutput(); err != nil {
			t.Errorf("remove the network interface: %v: %s", err, out)
		}
	})
	c := &compute{
		on:       engine,
		registry: registry,
		rabbit:   rabbit,
		images:   map[string]string{},
		network:  network,
	}
	c.testNode = newNodeOn(t, engine)
	c.write("/etc/kollet/secrets/rabbit", rabbitPassword+"\n")
	return c
}

// in returns the compute node with its failures reported to the test of one part.
func (c *compute) in(t *testing.T) *compute {
	inner, n := *c, *c.testNode
	n.t = t
	inner.testNode = &n
	return &inner
}

// networkServices are the profile's services for each network.
var networkServices = map[string][]string{
	"linuxbridge": {"neutron-linuxbridge-agent"},
	"openvswitch": {"openvswitch-db-server", "openvswitch-vswitchd", "neutron-openvswitch-agent"},
}

// configure writes the node file.
func (c *compute) configure() {
	modules := filepath.Join(c.root, "modules") // a machine without modules may have no /lib/modules
	check(c.t, os.MkdirAll(modules, 0o755))
	var services strings.Builder
	for _, name := range append([]string{"nova-libvirt", "nova-compute"}, networkServices[c.network]...) {
		fmt.Fprintf(&services, "  %s:\n    volumes: [{source: %s, target: /lib/modules, read_only: true}]\n", name, modules)
		if tag, ok := c.images[name]; ok {
			fmt.Fprintf(&services, "    image: %s:%s\n", name, tag)
		}
		if name == "nova-libvirt" {
			services.WriteString(c.services)
		}
	}
	c.write("/etc/kollet/node.yaml", fmt.Sprintf(`engine: %s
images: {registry: %s/kolla, tag: %q}
network: %s
vars:
  virt_type: qemu
  rabbit_host: 127.0.0.1
secrets: {rabbit_password: {file: /etc/kollet/secrets/rabbit}}
services:
%s`, c.on.name, c.registry.Addr, oldVersion, c.network, services.String()))
}

// upgrade runs an upgrade and requires that it commits.
func (c *compute) upgrade() upgrade.Result {
	c.t.Helper()
	c.configure()
	var r upgrade.Result
	c.ask(&r, "upgrade")
	if r.Outcome != journal.Committed {
		c.t.Fatalf("upgrade: %+v", r)
	}
	c.t.Logf("gaps: %+v", r.Gaps)
	return r
}

func (c *compute) virsh(args ...string) string {
	c.t.Helper()
	return c.must(0, append([]string{"exec", "nova-libvirt", "--", "virsh"}, args...)...).stdout
}

const guestName, guestUUID = "ticker", "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11"

// boot defines and starts the guest, and waits until it prints its ticks.
func (c *compute) boot() {
	c.t.Helper()
	machine.PlaceGuest(c.t, c.guestDir())
	xml := machine.GuestXML(guestName, guestUUID, "/var/lib/nova/instances/"+guestUUID)
	check(c.t, os.WriteFile(filepath.Join(c.guestDir(), "domain.xml"), []byte(xml), 0o644))
	c.virsh("define", "/var/lib/nova/instances/"+guestUUID+"/domain.xml")
	c.virsh("start", guestName)
	machine.AwaitTick(c.t, c.console(), 5)
}

// guestDir is the guest's directory in the volume nova_compute.
func (c *compute) guestDir() string {
	return filepath.Join(c.on.volume(c.root, "nova_compute"), "instances", guestUUID)
}

func (c *compute) console() string { return filepath.Join(c.guestDir(), machine.Console) }

func (c *compute) guests() []agent.Guest {
	c.t.Helper()
	var guests []agent.Guest
	c.ask(&guests, "guests")
	return guests
}

// guest returns the guest, and fails unless exactly one runs.
func (c *compute) guest() agent.Guest {
	c.t.Helper()
	guests := c.guests()
	if len(guests) != 1 {
		c.t.Fatalf("guests: %+v", guests)
	}
	return guests[0]
}

// lives requires that the guest is the same process, has printed every tick, and
// prints more.
func (c *compute) lives(before agent.Guest) {
	c.t.Helper()
	now := c.guest()
	if !now.Same(before.Guest) {
		c.t.Fatalf("the guest is another process: %+v, now %+v", before, now)
	}
	ticks, err := machine.Ticks(c.console())
	check(c.t, err)
	machine.AwaitTick(c.t, c.console(), ticks[len(ticks)-1]+3)
	ticks, err = machine.Ticks(c.console())
	check(c.t, err)
	check(c.t, machine.Unbroken(ticks))
	if list := c.virsh("list", "--state-running", "--uuid"); !strings.Contains(list, guestUUID) {
		c.t.Fatalf("libvirt does not list the guest: %q", list)
	}
}

// connected requires that a service has a connection to RabbitMQ.
func (c *compute) connected(service string) {
	c.t.Helper()
	for range 100 {
		if slices.ContainsFunc(c.rabbit.Connections(c.t), func(conn machine.Connection) bool {
			return strings.HasPrefix(conn.Name, service) && conn.State == "running"
		}) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	c.t.Fatalf("%s has no connection: %+v", service, c.rabbit.Connections(c.t))
}
