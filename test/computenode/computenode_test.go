package computenode

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const (
	oldVersion = nodetest.OldVersion
	newVersion = nodetest.NewVersion
)

const rabbitPassword = "r4bb1tPassw0rd"

// onEachCompute runs a test on a compute node with Docker, and in make test-long with each
// engine. All use the same registry and message broker.
func onEachCompute(t *testing.T, network string, test func(*testing.T, *compute)) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	rabbit := machine.NewRabbit(t, rabbitPassword)
	t.Run("docker", func(t *testing.T) {
		test(t, newCompute(t, network, nodetest.OnDocker(machine.Dockerd(t)), registry, rabbit))
	})
	if !nodetest.Long() {
		return
	}
	t.Run("containerd", func(t *testing.T) {
		test(t, newCompute(t, network, nodetest.OnContainerd(machine.NewContainerd(t, machine.BoundedRuntime())), registry, rabbit))
	})
	if nodetest.WithPodman {
		t.Run("podman", func(t *testing.T) {
			test(t, newCompute(t, network, nodetest.OnPodman(machine.NewPodman(t, registry)), registry, rabbit))
		})
	}
}

// compute is a compute node with a message broker and no control plane.
type compute struct {
	*nodetest.Compute
	rabbit *machine.Rabbit
}

func newCompute(t *testing.T, network string, engine nodetest.Engine, registry *machine.Registry, rabbit *machine.Rabbit) *compute {
	c := &compute{nodetest.NewCompute(t, network, engine, registry), rabbit}
	c.Vars = map[string]string{"rabbit_host": "127.0.0.1", "auth_url": "none"}
	c.Secrets = map[string]string{"rabbit_password": "/etc/kollet/secrets/rabbit"}
	c.Write("/etc/kollet/secrets/rabbit", rabbitPassword+"\n")
	return c
}

// in returns the compute node with its failures reported to the test of one part.
func (c *compute) in(t *testing.T) *compute { return &compute{c.In(t), c.rabbit} }

func (c *compute) Virsh(args ...string) string {
	c.T.Helper()
	return c.Must(0, append([]string{"exec", "nova-libvirt", "--", "virsh"}, args...)...).Stdout
}

const guestName, guestUUID = "ticker", "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11"

// boot defines and starts the guest, and waits until it prints its ticks.
func (c *compute) Boot() {
	c.T.Helper()
	machine.PlaceGuest(c.T, c.GuestDir())
	xml := machine.GuestXML(guestName, guestUUID, "/var/lib/nova/instances/"+guestUUID)
	check(c.T, os.WriteFile(filepath.Join(c.GuestDir(), "domain.xml"), []byte(xml), 0o644))
	c.Virsh("define", "/var/lib/nova/instances/"+guestUUID+"/domain.xml")
	c.Virsh("start", guestName)
	machine.AwaitTick(c.T, c.Console(), 5)
}

// guestDir is the guest's directory in the volume nova_compute.
func (c *compute) GuestDir() string {
	return filepath.Join(c.Instances(), guestUUID)
}

func (c *compute) Console() string { return filepath.Join(c.GuestDir(), machine.Console) }

// guest returns the guest, and fails unless exactly one runs.
func (c *compute) Guest() agent.Guest {
	c.T.Helper()
	guests := c.Guests()
	if len(guests) != 1 {
		c.T.Fatalf("guests: %+v", guests)
	}
	return guests[0]
}

// lives requires that the guest is the same process, has printed every tick, and
// prints more.
func (c *compute) Lives(before agent.Guest) {
	c.T.Helper()
	now := c.Guest()
	if !now.Same(before.Guest) {
		c.T.Fatalf("the guest is another process: %+v, now %+v", before, now)
	}
	ticks, err := machine.Ticks(c.Console())
	check(c.T, err)
	machine.AwaitTick(c.T, c.Console(), ticks[len(ticks)-1]+3)
	ticks, err = machine.Ticks(c.Console())
	check(c.T, err)
	check(c.T, machine.Unbroken(ticks))
	if list := c.Virsh("list", "--state-running", "--uuid"); !strings.Contains(list, guestUUID) {
		c.T.Fatalf("libvirt does not list the guest: %q", list)
	}
}

// connected requires that a service has a connection to RabbitMQ.
func (c *compute) Connected(service string) {
	c.T.Helper()
	for end := time.Now().Add(nodetest.Patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if slices.ContainsFunc(c.rabbit.Connections(c.T), func(conn machine.Connection) bool {
			return strings.HasPrefix(conn.Name, service) && conn.State == "running"
		}) {
			return
		}
	}
	c.T.Fatalf("%s has no connection: %+v", service, c.rabbit.Connections(c.T))
}
