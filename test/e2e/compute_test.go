package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
)

// TestComputeNode takes a compute node from bootstrap through upgrades and rollbacks
// with a guest, on both engines: with real libvirt, QEMU, nova-compute, network agent
// and RabbitMQ.
func TestComputeNode(t *testing.T) {
	onBothComputes(t, "linuxbridge", computeLifecycle)
}

// computeLifecycle runs parts that depend on the ones before them.
func computeLifecycle(t *testing.T, c *compute) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *compute)
	}{
		{"bootstrap brings up a compute node", bootstrapCompute},
		{"a guest survives an upgrade of libvirt and nova-compute", guestSurvives},
		{"the replaced container stays while its guest runs", pinned},
		{"a changed file cuts over only one service", oneServiceAlone},
		{"a rollback brings libvirt back, under the guest", rollbackUnderGuest},
		{"a kill at any record leaves the guest alive", killUnderGuest},
		{"a bad libvirt image is rolled back under the guest", badLibvirt},
		{"secrets are only in the config files", secretsStayInFiles},
		{"a guest that the new libvirt shut down pins nothing", guestGoes},
		{"without protection the same upgrade kills a guest", unprotected},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, c) }) {
			return // the next parts depend on it
		}
	}
}

func bootstrapCompute(t *testing.T, c *compute) {
	c = c.in(t)
	c.configure()
	var r upgrade.Result
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
	for _, service := range s.Services {
		c.warmedUp(service.Name)
	}
	c.must(0, "verify")
	c.ask(&r, "bootstrap")
	if r.Outcome != journal.Unchanged {
		t.Fatalf("bootstrap again: %+v", r)
	}
	same(t, s.Services[0], c.service(s.Services[0].Name))
}

// warmedUp requires that a service's warm-up did not fail. On a busy machine it may be
// killed at its time limit.
func (c *compute) warmedUp(service string) {
	c.t.Helper()
	log := c.must(0, "logs", service)
	for line := range strings.Lines(log.all()) {
		if strings.Contains(line, "warm-up ") && !strings.Contains(line, "killed after") {
			c.t.Fatalf("%s: %s", service, line)
		}
	}
}

// runsAs requires that a service's first process belongs to a user.
func (c *compute) runsAs(service string, uid int) {
	c.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.service(service).PID))
	check(c.t, err)
	contains(c.t, string(data), fmt.Sprintf("Uid:\t%d\t", uid))
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

// parentLives requires that the guest's parent, after the end of the old container,
// is a running process.
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
	var g upgrade.Garbage
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

// killUnderGuest kills upgrades of libvirt at each journal record. TestCrash does so
// with tiny services, and kills the recovery too.
func killUnderGuest(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.guest()
	// A shorter stable time: many upgrades follow.
	c.services = `    healthcheck: [{exec: [virsh, -c, "qemu:///system", version, --daemon], start_period: 60s, stable: 200ms}]
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
			c.images = map[string]string{"nova-libvirt": newVersion} // the upgrade was committed, so the next one reverses it
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
	contains(t, o.stderr, guestName, "has exited")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", guest.PID)); err == nil {
		t.Fatal("the guest survived without protection, so this test does not show that protection works")
	}
}
