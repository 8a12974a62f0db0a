package cloud_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestServerSurvives is the part for make test: it makes a server with a port, upgrades
// everything under it, and makes another.
func TestServerSurvives(t *testing.T) {
	c, registry := controlPlane(t)
	m := join(t, c, "linuxbridge", onDocker(t), registry)
	network, _ := m.networks()
	m.kept = append(m.kept, m.create("first", network))
	began := time.Now()
	m.renew(m.ServiceNames()...)
	m.Upgrade()
	m.spared()
	m.seen(m.lastStart(began))
	second := m.create("second", network)
	m.spared()
	m.api.Delete(second.id)
	m.quiet(began)
}

// controlPlane starts what all nodes of a test use.
func controlPlane(t *testing.T) (*cloud.Cloud, *machine.Registry) {
	t.Helper()
	nodetest.ShareRun(t)
	return cloud.New(t), machine.NewRegistry(t, machine.RegistryDir(nodetest.Built(t, "registry")))
}

func onDocker(t *testing.T) nodetest.Engine {
	return nodetest.OnDocker(machine.Dockerd(t, machine.LiveRestore()))
}

func onContainerd(t *testing.T) nodetest.Engine {
	return nodetest.OnContainerd(machine.NewContainerd(t, machine.BoundedRuntime()))
}

// TestServersLive takes servers through everything that happens to a node, on both
// engines and with each network of the profile but OVN, which has TestServersOnOVN.
func TestServersLive(t *testing.T) {
	c, registry := controlPlane(t)
	for _, network := range []string{"linuxbridge", "openvswitch", "none"} {
		t.Run(network, func(t *testing.T) {
			t.Run("docker", func(t *testing.T) { life(t, join(t, c, network, onDocker(t), registry)) })
			t.Run("containerd", func(t *testing.T) { life(t, join(t, c, network, onContainerd(t), registry)) })
		})
	}
}

// life runs parts that each leave the node intact, with servers that live through all of
// them.
func life(t *testing.T, m *member) {
	m.keep()
	type part struct {
		name string
		do   func(*member)
	}
	var parts []part
	for _, name := range m.ServiceNames() {
		parts = append(parts, part{"an upgrade of " + name + " alone", func(m *member) { m.renew(name); m.Upgrade() }})
	}
	parts = append(parts,
		part{"an upgrade of everything", func(m *member) { m.renew(m.ServiceNames()...); m.Upgrade() }},
		part{"an upgrade of configuration alone", reconfigured},
		part{"a rollback", rolledBack},
		part{"an upgrade that fails", failed},
		part{"kollet killed in an upgrade", func(m *member) { m.renew(m.ServiceNames()...); m.interrupted("upgrade") }},
		part{"kollet killed in an upgrade that fails", failureKilled},
		part{"kollet killed in a rollback", func(m *member) { m.renew(m.ServiceNames()...); m.Upgrade(); m.interrupted("rollback") }},
		part{"a restart of the engine", restarted},
		part{"a reboot of the host", func(inner *member) { inner.reboot(m.T) }},
	)
	for _, part := range parts {
		if !t.Run(part.name, func(t *testing.T) {
			inner, began := m.in(t), time.Now()
			part.do(inner)
			inner.intact(began)
		}) {
			return // the next parts depend on it
		}
	}
	t.Run("a delete of the servers", func(t *testing.T) {
		inner := m.in(t)
		for _, s := range m.kept {
			inner.api.Delete(s.id)
		}
		if guests := inner.Guests(); len(guests) != 0 {
			t.Fatalf("guests: %+v", guests)
		}
	})
}

// renew gives services the version that they do not run, in the node file, and the others
// the one that they do.
func (m *member) renew(names ...string) {
	m.T.Helper()
	for _, s := range m.Status().Services {
		isNew := strings.HasSuffix(s.Image, ":"+nodetest.NewVersion)
		if isNew == slices.Contains(names, s.Name) {
			m.Images[s.Name] = nodetest.OldVersion
		} else {
			m.Images[s.Name] = nodetest.NewVersion
		}
	}
	m.Configure()
}

func reconfigured(m *member) {
	m.renew()
	m.Write("/etc/kollet/config/nova.conf", "[DEFAULT]\nreserved_host_memory_mb = 384\n")
	if m.Network != "none" {
		m.Write("/etc/kollet/config/neutron.conf", "[AGENT]\nlog_agent_heartbeats = true\n")
	}
	m.Upgrade()
}

func rolledBack(m *member) {
	m.renew(m.ServiceNames()...)
	m.Upgrade()
	m.Must(0, "rollback")
}

// broken is a command of nova-compute that ends after the cutover.
const broken = "    command: [nova-compute, --config-file, /no/such/file]\n"

func failed(m *member) {
	generation := m.Status().Generation
	m.renew(m.ServiceNames()...)
	m.More = map[string]string{"nova-compute": broken}
	m.Configure()
	if o := m.Must(1, "upgrade"); !strings.Contains(o.Stderr, "nova-compute") {
		m.T.Fatalf("the upgrade failed without naming nova-compute:\n%s", o.All())
	}
	m.Healthy(generation)
}

func failureKilled(m *member) {
	m.renew(m.ServiceNames()...)
	m.More = map[string]string{"nova-compute": broken}
	m.Configure()
	m.interrupted("upgrade")
}

// interrupted kills kollet at a random moment of a command, and recovers. The moment is one of
// the time that a bootstrap took on this machine; the command may end before.
func (m *member) interrupted(command string) {
	m.T.Helper()
	m.killed(m.bootstrap, command)
	m.Must(0, "recover")
}

func restarted(m *member) {
	m.On.Kill()
	m.On.Start()
	m.awaitHealthy()
}

// awaitHealthy waits until the engine has started all services again.
func (m *member) awaitHealthy() {
	m.T.Helper()
	for deadline := time.Now().Add(cloud.Patience); !m.Status().Healthy; time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.T.Fatalf("after the engine's restart: %+v", m.Status())
		}
	}
}

// reboot ends everything that a reboot of the host ends, and does what a boot does: the
// engine starts the services, kollet's unit runs its commands, and nova-compute starts the
// servers. The new boot lasts until the test t ends.
func (m *member) reboot(t testing.TB) {
	m.T.Helper()
	m.On.LosePower()
	machine.NewBoot(t)
	removeBridges(m.T)
	nodetest.ClearRun(m.T)
	m.On.Start()
	m.Must(0, "recover", "--wait", "5m")
	m.Must(0, "bootstrap", "--resume")
	m.awaitHealthy()
	for _, s := range m.kept {
		m.awaitRestart(s)
	}
}

// awaitRestart waits until Nova has started a server again, whose process and console are
// new.
func (m *member) awaitRestart(s *server) {
	m.T.Helper()
	for deadline := time.Now().Add(cloud.Patience); ; time.Sleep(100 * time.Millisecond) {
		guests := m.Guests()
		i := slices.IndexFunc(guests, func(g agent.Guest) bool { return g.UUID == s.id })
		if now := m.api.Server(s.id); i >= 0 && now.Status == "ACTIVE" && now.TaskState == "" && now.PowerState == 1 {
			s.guest = guests[i]
			machine.AwaitTick(m.T, m.console(s), 3)
			return
		} else if time.Now().After(deadline) {
			m.T.Fatalf("server %s is not started again: Nova has %+v; guests: %+v", s.id, now, guests)
		}
	}
}
