package cloud_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const host = "compute-1" // as nodetest calls the node

// Addresses of the node: the end of its tunnels, on an interface of its own.
const tunnelAddress = "10.89.0.1"

// member is a compute node of a cloud, with servers that every upgrade has to spare.
type member struct {
	*nodetest.Compute
	cloud *cloud.Cloud
	api   *cloud.Client
	kept  []*server
	find  func(uuid string) (guest.Guest, bool) // finds guests where kollet does not, unless it is nil

	bootstrap time.Duration // how long it took, which measures the speed of this machine
}

// server is a server of Nova and its process.
type server struct {
	id    string
	guest agent.Guest
}

// join bootstraps a node and waits until the cloud can use it.
func join(t *testing.T, c *cloud.Cloud, network string, engine nodetest.Engine, registry *machine.Registry) *member {
	t.Helper()
	m := enlist(t, c, network, engine, registry)
	began := time.Now()
	m.Must(0, "bootstrap")
	m.bootstrap = time.Since(began)
	m.seen(began)
	t.Logf("the cloud uses the node after %.1f s", time.Since(began).Seconds())
	return m
}

// enlist makes a node with the node file of a compute node of the cloud, and without services.
func enlist(t *testing.T, c *cloud.Cloud, network string, engine nodetest.Engine, registry *machine.Registry) *member {
	t.Helper()
	t.Cleanup(func() { removeBridges(t) }) // after the containers
	m := &member{Compute: nodetest.NewCompute(t, network, engine, registry), cloud: c, api: c.Client(t)}
	m.api.ForgetAgents(host) // of a node before, to which Neutron would still bind ports
	for _, args := range []string{"addr add " + tunnelAddress + "/24 dev node1", "link set node1 up", "link set " + nodetest.Interface + " up"} {
		run(t, "ip", strings.Fields(args)...)
	}
	c.Connect(m.Compute)
	m.Vars["resume_guests_state_on_host_boot"] = "true"
	switch network {
	case "linuxbridge":
		m.Vars["physical_interface_mappings"] = "physnet1:" + nodetest.Interface
		m.Vars["tunnel_types"] = "vxlan"
		m.Vars["local_ip"] = tunnelAddress
	case "ovn":
		m.Vars["ovn_encap_ip"] = tunnelAddress
		m.Write("/etc/kollet/config/ovn/chassis.ini", "[external_ids]\novn-bridge-datapath-type = netdev\n")
		m.Settings = "openstack: {username: nova, password: nova_password}\n"
	case "openvswitch":
		m.Vars["tunnel_types"] = "vxlan"
		m.Vars["local_ip"] = tunnelAddress
		// Not every kernel has the openvswitch module.
		m.Write("/etc/kollet/config/neutron/openvswitch_agent.ini", "[ovs]\ndatapath_type = netdev\n")
	}
	m.Configure()
	return m
}

// in returns the node with its failures reported to the test of one part.
func (m *member) in(t *testing.T) *member {
	inner := *m
	inner.Compute, inner.api = m.In(t), m.cloud.Client(t)
	return &inner
}

// seen waits until Nova and Neutron have had heartbeats after a time.
func (m *member) seen(after time.Time) {
	m.T.Helper()
	m.api.AwaitCompute(host, after)
	if m.Network != "none" {
		m.api.AwaitAgent(host, after)
	}
}

// networks returns the networks for the first and for another port of a server.
func (m *member) networks() (first, other string) {
	switch m.Network {
	case "linuxbridge":
		return cloud.Provider, cloud.Tenant
	case "openvswitch":
		return cloud.Tenant, cloud.Tenant
	case "ovn":
		return cloud.Overlay, cloud.Overlay
	}
	return "", ""
}

// create makes a server and waits until it is ACTIVE, with its port, and counts.
func (m *member) create(name, network string) *server {
	m.T.Helper()
	began := time.Now()
	s := &server{id: m.api.CreateServer(name, host, network)}
	m.api.AwaitActive(s.id)
	took := time.Since(began)
	ports := m.api.Ports(s.id)
	if (network != "") != (len(ports) == 1) {
		m.T.Fatalf("server %s has %d ports", name, len(ports))
	}
	for _, p := range ports {
		if p.Status != "ACTIVE" {
			m.T.Fatalf("server %s: its port is %s", name, p.Status)
		}
	}
	machine.AwaitTick(m.T, m.console(s), 3)
	s.guest = m.process(s)
	m.T.Logf("server %s: ACTIVE after %.1f s", name, took.Seconds())
	return s
}

// keep makes servers that every upgrade has to spare.
func (m *member) keep() {
	m.T.Helper()
	m.kept = append(m.kept, m.create("without-port", ""))
	if network, _ := m.networks(); network != "" {
		m.kept = append(m.kept, m.create("with-port", network))
	}
}

func (m *member) console(s *server) string {
	return filepath.Join(m.Instances(), s.id, machine.Console)
}

// process returns the process of a server.
func (m *member) process(s *server) agent.Guest {
	m.T.Helper()
	if m.find != nil {
		g, ok := m.find(s.id)
		if !ok {
			m.T.Fatalf("server %s has no process", s.id)
		}
		return agent.Guest{Guest: g}
	}
	guests := m.Guests()
	i := slices.IndexFunc(guests, func(g agent.Guest) bool { return g.UUID == s.id })
	if i < 0 {
		m.T.Fatalf("server %s has no process: %+v", s.id, guests)
	}
	return guests[i]
}

// spared requires that the servers are the same processes, count on without a gap, and
// are ACTIVE for Nova.
func (m *member) spared() {
	m.T.Helper()
	for _, s := range m.kept {
		if now := m.process(s); !now.Same(s.guest.Guest) {
			m.T.Fatalf("server %s is another process: %+v, now %+v", s.id, s.guest, now)
		}
		ticks, err := machine.Ticks(m.console(s))
		if err != nil {
			m.T.Fatal(err)
		}
		machine.AwaitTick(m.T, m.console(s), ticks[len(ticks)-1]+3)
		if ticks, err = machine.Ticks(m.console(s)); err == nil {
			err = machine.Unbroken(ticks)
		}
		if err != nil {
			m.T.Fatal(err)
		}
		if now := m.api.Server(s.id); now.Status != "ACTIVE" || now.TaskState != "" || now.PowerState != 1 {
			m.T.Fatalf("server %s is %s, task %q, power state %v for Nova", s.id, now.Status, now.TaskState, now.PowerState)
		}
		for _, p := range m.api.Ports(s.id) {
			if p.Status != "ACTIVE" {
				m.T.Fatalf("server %s: its port is %s", s.id, p.Status)
			}
		}
	}
}

// works makes a server with a port, does to it what users do to servers, and deletes it.
func (m *member) works() {
	m.T.Helper()
	began := time.Now()
	first, other := m.networks()
	s := m.create(fmt.Sprintf("new-%d", began.Unix()), first)
	if text := m.api.Console(s.id); !strings.Contains(text, "tick 1\n") && !strings.Contains(text, "tick 1\r\n") {
		m.T.Fatalf("Nova's console log has no ticks:\n%s", text)
	}
	m.api.Stop(s.id)
	m.api.Start(s.id)
	m.api.HardReboot(s.id)
	m.api.Rebuild(s.id)
	if other != "" {
		m.api.DetachPort(s.id, m.api.AttachPort(s.id, other))
	}
	m.api.Delete(s.id)
	m.T.Logf("a new server's life took %.1f s", time.Since(began).Seconds())
}

// intact requires everything that has to hold after a change of the node, of which the
// given time is the beginning.
func (m *member) intact(began time.Time) {
	m.T.Helper()
	if s := m.Status(); !s.Healthy || s.Interrupted {
		m.T.Fatalf("status: %+v", s)
	}
	m.Must(0, "verify")
	m.spared()
	m.seen(m.lastStart(began))
	m.works()
	m.spared()
	m.quiet(began)
}

// lastStart returns when the last of the services started that started after a time, or
// that time.
func (m *member) lastStart(after time.Time) time.Time {
	m.T.Helper()
	for _, s := range m.Status().Services {
		if s.Since.After(after) {
			after = s.Since
		}
	}
	return after
}

// harmless are errors in logs that do not concern an upgrade, or that it may cause: an
// entry that contains all of these.
var harmless = [][]string{
	// While libvirt is away, the old nova-compute disables its service. The new one
	// enables it as soon as it reaches libvirt, before it has read its resource provider,
	// and cannot remove the provider's trait. Nova logs this as a warning with a
	// traceback, and removes the trait a moment later (_update_compute_provider_status in
	// nova/virt/libvirt/driver.py). If it did not, no server could be placed here.
	{"nova.virt.libvirt.driver", "in _update_compute_provider_status", "ValueError: No such provider"},
	// A request has changed the provider since nova-compute read it. It reads it again and
	// repeats the update (_update_to_placement in nova/compute/resource_tracker.py).
	{"nova.scheduler.client.report", "Failed to update inventory", "placement.concurrent_update"},
	// os-vif adds the port of a new server to Open vSwitch before QEMU creates its device.
	madeLater,
	// An agent that stops ends its monitor of the database, and logs the end of the monitor's
	// error output if it reads that first (_kill and _read_stderr in
	// neutron/agent/common/async_process.py). A monitor whose database goes away says so
	// before it ends, and the agent logs those words.
	{"neutron.agent.common.async_process", "Error received from [ovsdb-client monitor", "]: None"},
}

// madeLater are the parts of an error about a port whose device does not exist. It is not
// harmless if the server was there before the upgrade.
var madeLater = []string{"ovs_neutron_agent", "has no ofport configured or is invalid"}

// quiet requires that nova-compute and the agent have logged no errors because of an
// upgrade that began at the given time.
func (m *member) quiet(began time.Time) {
	m.T.Helper()
	ports := m.keptPorts()
	for _, name := range m.ServiceNames() {
		if name != "nova-compute" && !strings.HasPrefix(name, "neutron-") {
			continue
		}
		for _, entry := range logged(m.Must(0, "logs", name).Stdout) {
			if !strings.Contains(entry, " ERROR ") && !strings.Contains(entry, " CRITICAL ") {
				continue
			}
			known := slices.ContainsFunc(harmless, func(parts []string) bool { return hasAll(entry, parts) })
			if !known || hasAll(entry, madeLater) && hasAny(entry, ports) && entry > began.UTC().Format(time.DateTime) {
				m.T.Errorf("%s logged:\n%s", name, entry)
			}
		}
	}
}

// keptPorts returns the ids of the ports of the servers that every upgrade has to spare.
func (m *member) keptPorts() []string {
	m.T.Helper()
	var ids []string
	for _, s := range m.kept {
		for _, p := range m.api.Ports(s.id) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

func hasAll(text string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

func hasAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// logged returns the entries of a log of oslo.log: the lines of a traceback have the same
// date, time, process, level and logger.
func logged(text string) []string {
	var entries []string
	var last string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		head := strings.Join(fields[:min(5, len(fields))], " ")
		if len(entries) > 0 && head == last {
			entries[len(entries)-1] += line
		} else {
			entries = append(entries, line)
		}
		last = head
	}
	return entries
}

// killed runs kollet and kills it at a random moment of the given time, unless it ends
// before.
func (m *member) killed(within time.Duration, args ...string) {
	m.T.Helper()
	moment := rand.N(within)
	cmd := m.Command(args...)
	if err := cmd.Start(); err != nil {
		m.T.Fatal(err)
	}
	timer := time.AfterFunc(moment, func() { _ = cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	m.T.Logf("kollet %s, to be killed after %.2f s of %.1f: %v", strings.Join(args, " "), moment.Seconds(), within.Seconds(), err)
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// removeBridges removes the network devices that an agent made and that would disappear
// with the machine.
func removeBridges(t testing.TB) {
	t.Helper()
	devices, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, device := range devices {
		name := filepath.Base(device)
		if strings.HasPrefix(name, "brq") || strings.HasPrefix(name, "vxlan") || strings.HasPrefix(name, "tap") {
			run(t, "ip", "link", "delete", name)
		}
	}
}
