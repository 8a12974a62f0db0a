package e2e

import (
	"context"
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
	"github.com/kollet/kollet/test/machine"
)

// Versions of the node's images that make builds: they differ by a label.
const (
	oldVersion = "26.2.2"
	newVersion = "26.2.2-1"
)

const rabbitPassword = "r4bb1tPassw0rd"

// TestComputeNode is the life of a compute node: real libvirt, QEMU,
// nova-compute, network agent and RabbitMQ. Its parts build on each other.
func TestComputeNode(t *testing.T) {
	c := newCompute(t, "linuxbridge")
	for _, part := range []struct {
		name string
		test func(*testing.T, *compute)
	}{
		{"bootstrap brings up a compute node", bootstrapCompute},
		{"a guest survives an upgrade of libvirt and nova-compute", guestSurvives},
		{"the replaced container stays while its guest runs", pinned},
		{"a changed file cuts over one service alone", oneServiceAlone},
		{"a rollback brings libvirt back, under the guest", rollbackUnderGuest},
		{"a kill at any record leaves the guest alive", killUnderGuest},
		{"a bad libvirt image is rolled back under the guest", badLibvirt},
		{"secrets are nowhere but in the files", secretsStayInFiles},
		{"the new libvirt shuts the guest down, and then it pins nothing", guestGoes},
		{"without protection the same upgrade kills a guest", unprotected},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, c) }) {
			return // the others build on it
		}
	}
}

type compute struct {
	*node
	docker   *machine.Docker
	registry *machine.Registry
	rabbit   *machine.Rabbit
	network  string // of the profile
	services string // more lines of nova-libvirt
	images   map[string]string
}

func newCompute(t *testing.T, network string) *compute {
	// As systemd does on a real node; this is the test's own /run.
	check(t, unix.Mount("", "/run", "", unix.MS_REC|unix.MS_SHARED, ""))
	// The network agent takes its identity from an interface's address.
	if out, err := exec.Command("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node1").CombinedOutput(); err != nil {
		t.Fatalf("make a network interface: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("ip", "link", "delete", "node0").CombinedOutput(); err != nil {
			t.Errorf("remove the network interface: %v: %s", err, out)
		}
	})
	c := &compute{
		docker:   machine.Dockerd(t),
		registry: machine.NewRegistry(t, machine.RegistryDir(built(t, "registry"))),
		rabbit:   machine.NewRabbit(t, rabbitPassword),
		images:   map[string]string{},
		network:  network,
	}
	c.node = newNode(t, c.docker)
	c.write("/etc/kollet/secrets/rabbit", rabbitPassword+"\n")
	return c
}

// in makes the compute node report to a part's test.
func (c *compute) in(t *testing.T) *compute {
	inner, n := *c, *c.node
	n.t = t
	inner.node = &n
	return &inner
}

// networkServices are those of the profile for each network.
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
		fmt.Fprintf(&services, "  %s:\n    mounts: [{source: %s, target: /lib/modules, read_only: true}]\n", name, modules)
		if tag, ok := c.images[name]; ok {
			fmt.Fprintf(&services, "    image: %s:%s\n", name, tag)
		}
		if name == "nova-libvirt" {
			services.WriteString(c.services)
		}
	}
	c.write("/etc/kollet/node.yaml", fmt.Sprintf(`images: {registry: %s/kolla, tag: %q}
network: %s
vars:
  virt_type: qemu
  rabbit_host: 127.0.0.1
secrets: {rabbit_password: {file: /etc/kollet/secrets/rabbit}}
services:
%s`, c.registry.Addr, oldVersion, c.network, services.String()))
}

// upgrade runs an upgrade and wants it to commit.
func (c *compute) upgrade() agent.Result {
	c.t.Helper()
	c.configure()
	var r agent.Result
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

// boot defines and starts the guest and waits until it counts.
func (c *compute) boot() {
	c.t.Helper()
	machine.PlaceGuest(c.t, c.guestDir())
	xml := machine.GuestXML(guestName, guestUUID, "/var/lib/nova/instances/"+guestUUID)
	check(c.t, os.WriteFile(filepath.Join(c.guestDir(), "domain.xml"), []byte(xml), 0o644))
	c.virsh("define", "/var/lib/nova/instances/"+guestUUID+"/domain.xml")
	c.virsh("start", guestName)
	machine.AwaitTick(c.t, c.console(), 5)
}

// guestDir is the guest's directory in the volume of nova's data.
func (c *compute) guestDir() string {
	return filepath.Join(c.docker.Root, "volumes/nova_compute/_data/instances", guestUUID)
}

func (c *compute) console() string { return filepath.Join(c.guestDir(), machine.Console) }

func (c *compute) guests() []agent.Guest {
	c.t.Helper()
	var guests []agent.Guest
	c.ask(&guests, "guests")
	return guests
}

// guest is the one guest.
func (c *compute) guest() agent.Guest {
	c.t.Helper()
	guests := c.guests()
	if len(guests) != 1 {
		c.t.Fatalf("guests: %+v", guests)
	}
	return guests[0]
}

// lives wants the guest to be the same process, to have counted without a
// break, and to go on.
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

// connected wants a client of RabbitMQ that belongs to a service.
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
	c.t.Fatalf("%s holds no connection: %+v", service, c.rabbit.Connections(c.t))
}

func bootstrapCompute(t *testing.T, c *compute) {
	c = c.in(t)
	c.configure()
	var r agent.Result
	c.ask(&r, "bootstrap")
	if r.Outcome != journal.Committed || r.To != 1 {
		t.Fatalf("bootstrap: %+v", r)
	}
	s := c.healthy(1)
	if len(s.Services) != 3 {
		t.Fatalf("services: %+v", s.Services)
	}
	c.connected("nova-compute")
	c.connected("neutron-linuxbridge-agent")
	c.runsAs("nova-compute", 42436)
	c.runsAs("neutron-linuxbridge-agent", 42435)
	c.must(0, "verify")
	c.ask(&r, "bootstrap")
	if r.Outcome != agent.Unchanged {
		t.Fatalf("bootstrap again: %+v", r)
	}
	same(t, s.Services[0], c.service(s.Services[0].Name))
}

// runsAs wants a service's first process to belong to a user.
func (c *compute) runsAs(service string, uid int) {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.service(service).PID))
	check(c.t, err)
	contains(c.t, string(data), fmt.Sprintf("Uid:\t%d\t", uid))
}

// TestOpenvswitchNode brings up a node with Open vSwitch, in user space as not
// every kernel has its module.
func TestOpenvswitchNode(t *testing.T) {
	c := newCompute(t, "openvswitch")
	c.write("/etc/kollet/config/neutron/openvswitch_agent.ini", "[ovs]\ndatapath_type = netdev\n")
	c.configure()
	c.must(0, "bootstrap")
	if s := c.healthy(1); len(s.Services) != 5 {
		t.Fatalf("services: %+v", s.Services)
	}
	c.connected("neutron-openvswitch-agent")
	contains(t, c.must(0, "exec", "openvswitch-vswitchd", "--", "ovs-vsctl", "list-br").stdout, "br-int")
	c.must(0, "verify")
	c.images = map[string]string{"neutron-openvswitch-agent": newVersion}
	libvirt, db := c.service("nova-libvirt"), c.service("openvswitch-db-server")
	c.upgrade()
	same(t, libvirt, c.service("nova-libvirt"))
	same(t, db, c.service("openvswitch-db-server"))
	c.connected("neutron-openvswitch-agent")
}

func guestSurvives(t *testing.T, c *compute) {
	c = c.in(t)
	c.images = map[string]string{"nova-libvirt": newVersion, "nova-compute": newVersion}
	c.boot()
	before := c.guest()
	libvirt, nova, network := c.service("nova-libvirt"), c.service("nova-compute"), c.service("neutron-linuxbridge-agent")
	r := c.upgrade()
	if r.Guests != 1 {
		t.Fatalf("result: %+v", r)
	}
	c.lives(before)
	for _, was := range []agent.ServiceStatus{libvirt, nova} {
		if now := c.service(was.Name); now.ImageID == was.ImageID || now.Container == was.Container {
			t.Fatalf("%s was not replaced: %+v", was.Name, now)
		}
	}
	same(t, network, c.service("neutron-linuxbridge-agent"))
	c.connected("nova-compute")
	c.must(0, "verify")
	c.parentLives(before.PID)
}

// parentLives wants the guest to have been inherited by a process that is no
// part of the old container.
func (c *compute) parentLives(pid int) {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(c.t, err)
	var parent int
	for line := range strings.Lines(string(data)) {
		_, _ = fmt.Sscanf(line, "PPid:\t%d", &parent)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", parent)); parent == 0 || err != nil {
		c.t.Fatalf("the guest's parent is process %d: %v", parent, err)
	}
}

func pinned(t *testing.T, c *compute) {
	c = c.in(t)
	guest := c.guest()
	if guest.Generation != 1 || !strings.HasSuffix(guest.Image, ":"+oldVersion) || guest.Container == "" {
		t.Fatalf("guest: %+v", guest)
	}
	contains(t, c.must(0, "guests").stdout, guestName, guest.Container)
	var g agent.Garbage
	c.ask(&g, "gc")
	if !slices.Contains(g.Pinned, guest.Container) {
		t.Fatalf("gc: %+v", g)
	}
	kept, err := c.engine.Inspect(context.Background(), guest.Container)
	check(t, err)
	if _, err := c.engine.Image(context.Background(), kept.ImageID); err != nil {
		t.Fatalf("the guest's image is gone: %v", err)
	}
}

func oneServiceAlone(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.guest()
	c.images = map[string]string{"nova-libvirt": newVersion, "nova-compute": newVersion}
	c.write("/etc/kollet/config/nova/nova-compute.conf", "[DEFAULT]\nreserved_host_memory_mb = 768\n")
	libvirt, network := c.service("nova-libvirt"), c.service("neutron-linuxbridge-agent")
	contains(t, c.must(3, "plan", "--exit-code").stdout, "nova-compute", "+reserved_host_memory_mb = 768")
	c.upgrade()
	same(t, libvirt, c.service("nova-libvirt"))
	same(t, network, c.service("neutron-linuxbridge-agent"))
	contains(t, c.must(0, "exec", "nova-compute", "--", "cat", "/etc/nova/nova.conf").stdout, "reserved_host_memory_mb = 768")
	c.lives(before)
}

func rollbackUnderGuest(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.guest()
	c.must(0, "rollback", "1")
	c.lives(before)
	if image := c.service("nova-libvirt").Image; !strings.HasSuffix(image, ":"+oldVersion) {
		t.Fatalf("libvirt's image is %s", image)
	}
	if conf := c.must(0, "exec", "nova-compute", "--", "cat", "/etc/nova/nova.conf").stdout; strings.Contains(conf, "reserved_host_memory_mb = 768") {
		t.Fatal("the file was not rolled back")
	}
	c.must(0, "verify")
}

// killUnderGuest kills upgrades of libvirt at the records around its cut over;
// TestCrash goes over all of them.
func killUnderGuest(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.guest()
	// Trust comes sooner here: what is shown is the kills.
	c.services = `    health: [{exec: [virsh, -c, "qemu:///system", version, --daemon], within: 60s, stable: 200ms}]
`
	c.images = map[string]string{"nova-libvirt": newVersion}
	c.configure()
	c.must(0, "upgrade")
	c.images = map[string]string{}
	for record := 2; ; record++ {
		c.configure()
		o, killed := c.killedAt(record, "upgrade")
		if killed && c.status().Interrupted {
			c.must(0, "recover")
		}
		c.lives(before)
		s := c.status()
		if !s.Healthy || s.Interrupted {
			t.Fatalf("after a kill at record %d: %+v", record, s)
		}
		c.must(0, "verify")
		if !killed {
			if o.code != 0 || record < 12 {
				t.Fatalf("record %d: exit status %d\n%s", record, o.code, o.all())
			}
			return
		}
		if strings.HasSuffix(c.service("nova-libvirt").Image, ":"+oldVersion) {
			c.images = map[string]string{"nova-libvirt": newVersion} // it had committed: go the other way
		} else {
			c.images = map[string]string{}
		}
	}
}

func badLibvirt(t *testing.T, c *compute) {
	c = c.in(t)
	c.images = map[string]string{}
	c.services = "    command: [libvirtd, --config, /no/such/file]\n"
	before := c.guest()
	image, generation := c.service("nova-libvirt").Image, c.status().Generation
	c.configure()
	contains(t, c.must(1, "upgrade").stderr, "nova-libvirt", "/no/such/file", fmt.Sprintf("back on generation %d", generation))
	c.healthy(generation)
	if now := c.service("nova-libvirt").Image; now != image {
		t.Fatalf("libvirt's image is %s", now)
	}
	c.lives(before)
	c.must(0, "verify")
}

func guestGoes(t *testing.T, c *compute) {
	c = c.in(t)
	c.upgrade()
	pinned := c.guest().Container
	c.virsh("shutdown", guestName)
	for range 300 {
		if len(c.guests()) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if g := c.guests(); len(g) != 0 {
		t.Fatalf("the guest did not shut down: %+v", g)
	}
	c.must(0, "gc")
	if k, err := c.engine.Inspect(context.Background(), pinned); err == nil && k.Spec.Name != "nova-libvirt" {
		t.Fatalf("%s is still there", pinned)
	}
	c.healthy(c.status().Generation)
}

func unprotected(t *testing.T, c *compute) {
	c = c.in(t)
	check(t, os.Remove(c.console()))
	c.virsh("start", guestName)
	machine.AwaitTick(t, c.console(), 3)
	guest := c.guest()
	c.images = map[string]string{"nova-libvirt": newVersion}
	if strings.HasSuffix(c.service("nova-libvirt").Image, ":"+newVersion) {
		c.images = map[string]string{}
	}
	c.services = "    guests: {protect: false}\n"
	c.configure()
	o := c.must(1, "upgrade")
	contains(t, o.stderr, guestName, "has ended")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", guest.PID)); err == nil {
		t.Fatal("the guest lives: this test cannot tell protection from none")
	}
}
