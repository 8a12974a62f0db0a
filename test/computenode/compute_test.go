package computenode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestComputeNode takes a compute node from bootstrap through upgrades and rollbacks
// with a guest: with real libvirt, QEMU, nova-compute, network agent
// and RabbitMQ.
func TestComputeNode(t *testing.T) {
	onEachCompute(t, "linuxbridge", computeLifecycle)
}

// computeLifecycle runs parts that depend on the ones before them.
func computeLifecycle(t *testing.T, c *compute) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *compute)
	}{
		{"bootstrap brings up a compute node", bootstrapCompute},
		{"with a frozen broker an upgrade stops nothing", frozenBroker},
		{"a guest survives an upgrade of libvirt and nova-compute", guestSurvives},
		{"the replaced container stays while its guest runs", pinned},
		{"a changed file cuts over only one service", oneServiceAlone},
		{"a rollback brings libvirt back, under the guest", rollbackUnderGuest},
		{"a kill leaves the guest alive", killUnderGuest},
		{"an image that cannot take over the guest is refused", unfit},
		{"a canary that fails rolls the upgrade back", failingCanary},
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
	c.Configure()
	var r upgrade.Result
	c.Ask(&r, "bootstrap")
	if r.Outcome != journal.Committed || r.To != 1 {
		t.Fatalf("bootstrap: %+v", r)
	}
	s := c.Healthy(1)
	if len(s.Services) != 3 {
		t.Fatalf("services: %+v", s.Services)
	}
	c.Connected("nova-compute")
	c.Connected("neutron-linuxbridge-agent")
	c.runsAs("nova-compute", 42436)
	c.runsAs("neutron-linuxbridge-agent", 42435)
	for _, service := range s.Services {
		c.warmedUp(service.Name)
	}
	if said := c.journals(); strings.Contains(said, "nova.conf: ") || strings.Contains(said, "neutron.conf: ") || strings.Contains(said, ".ini: ") {
		t.Errorf("the images do not know all options of the profile:\n%s", said)
	}
	// nova-compute does not try this before a conductor answers.
	c.Must(0, "exec", "nova-compute", "--", "python3", "-c", "import libvirt; libvirt.open('qemu:///system')")
	c.Must(0, "verify")
	c.Ask(&r, "bootstrap")
	if r.Outcome != journal.Unchanged {
		t.Fatalf("bootstrap again: %+v", r)
	}
	nodetest.Same(t, s.Services[0], c.Service(s.Services[0].Name))
}

// frozenBroker requires that an upgrade is refused before anything is stopped, if the
// broker of nova-compute and the network agent accepts connections but does not answer.
func frozenBroker(t *testing.T, c *compute) {
	c = c.in(t)
	c.Images = map[string]string{"nova-compute": newVersion, "neutron-linuxbridge-agent": newVersion}
	c.Configure()
	before := c.Healthy(1)
	c.rabbit.Freeze()
	defer c.rabbit.Thaw()
	o := c.Must(1, "upgrade")
	var history []agent.Entry
	c.Ask(&history, "history")
	if last := history[0]; len(last.Steps) != 1 { // the first step is the check
		t.Errorf("refused after %+v", last)
	}
	contains(t, o.Stderr, "nothing was touched: ", "check requires: neutron-linuxbridge-agent, nova-compute: ", "probe amqp://127.0.0.1:5672: it accepts connections, but does not answer", "kollet upgrade --force")
	after := c.Status()
	for i, was := range before.Services {
		nodetest.Same(t, was, after.Services[i])
	}
	contains(t, c.Kollet("doctor").Stdout, "neutron-linuxbridge-agent, nova-compute: no success within ")
	c.rabbit.Thaw()
	contains(t, c.Kollet("doctor").Stdout, "neutron-linuxbridge-agent, nova-compute: amqp://127.0.0.1:5672 answers")
	c.Connected("nova-compute")
	c.Healthy(1)
}

// warmedUp requires that a service's warm-up did not fail. On a busy machine it may be
// killed at its time limit.
func (c *compute) warmedUp(service string) {
	c.T.Helper()
	log := c.Must(0, "logs", service)
	for line := range strings.Lines(log.All()) {
		if strings.Contains(line, "warm-up ") && !strings.Contains(line, "killed after") {
			c.T.Fatalf("%s: %s", service, line)
		}
	}
}

// runsAs requires that a service's first process belongs to a user.
func (c *compute) runsAs(service string, uid int) {
	c.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Service(service).PID))
	check(c.T, err)
	contains(c.T, string(data), fmt.Sprintf("Uid:\t%d\t", uid))
}

func guestSurvives(t *testing.T, c *compute) {
	c = c.in(t)
	c.Images = map[string]string{"nova-libvirt": newVersion, "nova-compute": newVersion}
	c.Boot()
	disk := c.attachDisk()
	before := c.Guest()
	if names := fmt.Sprint(before.Helpers); !strings.Contains(names, fmt.Sprintf("qemu-nbd (process %s)", disk)) || !strings.Contains(names, "virtlogd (") || len(before.Ending) > 0 {
		t.Fatalf("beside the guest run %v and %v", before.Helpers, before.Ending)
	}
	libvirt, nova, network := c.Service("nova-libvirt"), c.Service("nova-compute"), c.Service("neutron-linuxbridge-agent")
	r := c.Upgrade()
	if r.Guests != 1 {
		t.Fatalf("result: %+v", r)
	}
	c.Lives(before)
	if left := nodetest.Processes(nbd...); !slices.Equal(left, []string{disk}) {
		t.Fatalf("the guest's disk was served by process %s, now by %v", disk, left)
	}
	for _, was := range []agent.ServiceStatus{libvirt, nova} {
		if now := c.Service(was.Name); now.ImageID == was.ImageID || now.Container == was.Container {
			t.Fatalf("%s was not replaced: %+v", was.Name, now)
		}
	}
	nodetest.Same(t, network, c.Service("neutron-linuxbridge-agent"))
	c.Connected("nova-compute")
	c.Must(0, "verify")
	c.parentLives(before.PID)
}

// nbd serves a disk until the guest that is connected to it disconnects.
var nbd = []string{"qemu-nbd", "--fork", "--format=raw", "--socket=/var/lib/nova/instances/" + guestUUID + "/nbd"}

// attachDisk starts a program in libvirt's container that serves the guest a disk, and
// returns its process.
func (c *compute) attachDisk() string {
	c.T.Helper()
	check(c.T, os.Chmod(c.GuestDir(), 0o777))
	disk := filepath.Join(c.GuestDir(), "disk")
	check(c.T, os.WriteFile(disk, make([]byte, 1<<20), 0o666))
	check(c.T, os.Chmod(disk, 0o666))
	inside := "/var/lib/nova/instances/" + guestUUID
	c.Must(0, append(append([]string{"exec", "--user", "nova", "nova-libvirt", "--"}, nbd...), inside+"/disk")...)
	check(c.T, os.WriteFile(filepath.Join(c.GuestDir(), "disk.xml"), []byte(`<disk type='network' device='disk'>
  <driver name='qemu' type='raw'/>
  <source protocol='nbd'><host transport='unix' socket='`+inside+`/nbd'/></source>
  <target dev='vdb' bus='virtio'/>
</disk>
`), 0o644))
	c.Virsh("attach-device", guestName, inside+"/disk.xml")
	found := nodetest.Processes(nbd...)
	if len(found) != 1 {
		c.T.Fatalf("processes of %q: %v", nbd, found)
	}
	return found[0]
}

// parentLives requires that the guest's parent, after the end of the old container,
// is a running process.
func (c *compute) parentLives(pid int) {
	c.T.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(c.T, err)
	var parent int
	for line := range strings.Lines(string(data)) {
		_, _ = fmt.Sscanf(line, "PPid:\t%d", &parent)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", parent)); parent == 0 || err != nil {
		c.T.Fatalf("the guest's parent is process %d: %v", parent, err)
	}
}

func pinned(t *testing.T, c *compute) {
	c = c.in(t)
	guest := c.Guest()
	if guest.Generation != 1 || !strings.HasSuffix(guest.Image, ":"+oldVersion) || guest.Container == "" {
		t.Fatalf("guest: %+v", guest)
	}
	contains(t, c.Must(0, "guests").Stdout, guestName, guest.Container)
	var g upgrade.Garbage
	c.Ask(&g, "gc")
	if !slices.Contains(g.Pinned, guest.Container) {
		t.Fatalf("gc: %+v", g)
	}
	kept, err := c.Engine.Inspect(context.Background(), guest.Container)
	check(t, err)
	if _, err := c.Engine.Image(context.Background(), kept.ImageID); err != nil {
		t.Fatalf("the guest's image is gone: %v", err)
	}
}

func oneServiceAlone(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.Guest()
	c.Images = map[string]string{"nova-libvirt": newVersion, "nova-compute": newVersion}
	c.Write("/etc/kollet/config/nova/nova-compute.conf", "[DEFAULT]\nreserved_host_memory_mb = 768\nreserved_host_memory = 768\n")
	libvirt, network := c.Service("nova-libvirt"), c.Service("neutron-linuxbridge-agent")
	contains(t, c.Must(3, "plan", "--exit-code").Stdout, "nova-compute", "+reserved_host_memory_mb = 768")
	c.Upgrade()
	contains(t, c.journals(), "nova.conf: unknown to the new image: [DEFAULT] reserved_host_memory ("+c.Path("/etc/kollet/config/nova/nova-compute.conf")+":3);")
	nodetest.Same(t, libvirt, c.Service("nova-libvirt"))
	nodetest.Same(t, network, c.Service("neutron-linuxbridge-agent"))
	contains(t, c.Must(0, "exec", "nova-compute", "--", "cat", "/etc/nova/nova.conf").Stdout, "reserved_host_memory_mb = 768")
	c.Lives(before)
}

// journals returns all that the journals say.
func (c *compute) journals() string {
	var all strings.Builder
	paths, _ := filepath.Glob(c.Path(filepath.Join(node.StateDir, "journal", "*")))
	for _, path := range paths {
		data, err := os.ReadFile(path)
		check(c.T, err)
		all.Write(data)
	}
	return all.String()
}

func rollbackUnderGuest(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.Guest()
	c.Must(0, "rollback", "1")
	c.Lives(before)
	if image := c.Service("nova-libvirt").Image; !strings.HasSuffix(image, ":"+oldVersion) {
		t.Fatalf("libvirt's image is %s", image)
	}
	if conf := c.Must(0, "exec", "nova-compute", "--", "cat", "/etc/nova/nova.conf").Stdout; strings.Contains(conf, "reserved_host_memory_mb = 768") {
		t.Fatal("the file was not rolled back")
	}
	c.Must(0, "verify")
}

// killUnderGuest kills upgrades of libvirt after journal records. TestCrash does so
// with tiny services, and kills the recovery too.
func killUnderGuest(t *testing.T, c *compute) {
	c = c.in(t)
	before := c.Guest()
	// Many upgrades follow: they have a shorter stable time, and keep nova-compute.
	c.More = map[string]string{"nova-libvirt": soonStable, "nova-compute": "    replace_with_dependencies: false\n"}
	c.Images = map[string]string{"nova-libvirt": newVersion}
	c.Configure()
	c.Must(0, "upgrade")
	c.Images = map[string]string{}
	for record := 2; ; record += nodetest.RecordsApart() {
		c.Configure()
		o, killed := c.KilledAt(record, "upgrade")
		if killed && c.Status().Interrupted {
			c.Must(0, "recover")
		}
		c.Lives(before)
		s := c.Status()
		if !s.Healthy || s.Interrupted {
			t.Fatalf("after a kill at record %d: %+v", record, s)
		}
		c.Must(0, "verify")
		if !killed {
			if o.Code != 0 || record < 12 {
				t.Fatalf("record %d: exit status %d\n%s", record, o.Code, o.All())
			}
			return
		}
		if strings.HasSuffix(c.Service("nova-libvirt").Image, ":"+oldVersion) {
			c.Images = map[string]string{"nova-libvirt": newVersion} // the upgrade was committed, so the next one reverses it
		} else {
			c.Images = map[string]string{}
		}
	}
}

func badLibvirt(t *testing.T, c *compute) {
	c = c.in(t)
	c.Images = map[string]string{}
	c.More = map[string]string{"nova-libvirt": "    command: [libvirtd, --config, /no/such/file]\n"}
	before := c.Guest()
	image, generation := c.Service("nova-libvirt").Image, c.Status().Generation
	c.Configure()
	contains(t, c.Must(1, "upgrade").Stderr, "nova-libvirt", "/no/such/file", fmt.Sprintf("back on generation %d", generation))
	c.Healthy(generation)
	if now := c.Service("nova-libvirt").Image; now != image {
		t.Fatalf("libvirt's image is %s", now)
	}
	c.Lives(before)
	c.Must(0, "verify")
}

func guestGoes(t *testing.T, c *compute) {
	c = c.in(t)
	c.Upgrade()
	pinned := c.Guest().Container
	c.Virsh("shutdown", guestName)
	c.Await("the guest shuts down", func() bool { return len(c.Guests()) == 0 })
	c.Must(0, "gc")
	if k, err := c.Engine.Inspect(context.Background(), pinned); err == nil && k.Spec.Name != "nova-libvirt" {
		t.Fatalf("%s is still there", pinned)
	}
	c.Healthy(c.Status().Generation)
}

func unprotected(t *testing.T, c *compute) {
	c = c.in(t)
	check(t, os.Remove(c.Console()))
	c.Virsh("start", guestName)
	machine.AwaitTick(t, c.Console(), 3)
	guest := c.Guest()
	c.Images = map[string]string{"nova-libvirt": newVersion}
	if strings.HasSuffix(c.Service("nova-libvirt").Image, ":"+newVersion) {
		c.Images = map[string]string{}
	}
	c.More = map[string]string{"nova-libvirt": "    guests: {protect: false}\n"}
	c.Configure()
	o := c.Must(1, "upgrade")
	contains(t, o.Stderr, guestName, "has exited")
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", guest.PID)); err == nil {
		t.Fatal("the guest survived without protection, so this test does not show that protection works")
	}
}
