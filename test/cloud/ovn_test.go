package cloud_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
)

// TestServersOnOVN makes a server that gets its address and its metadata from OVN, upgrades
// the services of the network under it, and makes another.
func TestServersOnOVN(t *testing.T) {
	c, registry := controlPlane(t)
	t.Run("docker", func(t *testing.T) { networkRenewed(t, join(t, c, "ovn", onDocker(t), registry)) })
	t.Run("containerd", func(t *testing.T) { networkRenewed(t, join(t, c, "ovn", onContainerd(t), registry)) })
}

func networkRenewed(t *testing.T, m *member) {
	m.api.AllowPing()
	first := m.create("first", cloud.Overlay)
	m.kept = append(m.kept, first)
	m.connected(first)
	began := time.Now()
	m.renew(m.ServiceNames()[2:]...) // all but libvirt and nova-compute
	m.Upgrade()
	m.spared()
	m.seen(m.lastStart(began))
	m.connected(first)
	second := m.create("second", cloud.Overlay)
	m.connected(second)
	m.spared()
	m.quiet(began)
	for _, s := range []*server{first, second} {
		m.api.Delete(s.id)
	}
}

// connected requires that OVN has bound a server's port to this node and brought it up, that
// the server has its address from OVN, that it answers a ping, and that it gets its metadata
// from now on.
func (m *member) connected(s *server) {
	m.T.Helper()
	port := m.api.Ports(s.id)[0]
	address := port.FixedIPs[0].IPAddress
	chassis := m.cloud.Southbound("--bare", "--columns=_uuid", "find", "chassis", "hostname="+host)
	if bound := m.cloud.Southbound("--bare", "--columns=chassis,up", "find", "port_binding", "logical_port="+port.ID); strings.Join(strings.Fields(bound), " ") != chassis+" true" {
		m.T.Fatalf("the port of server %s is bound to the chassis and up: %q; the node's chassis is %q", s.id, bound, chassis)
	}
	machine.AwaitLine(m.T, m.console(s), "address "+address)
	had := m.metadata(s)
	machine.AwaitLine(m.T, m.console(s), fmt.Sprintf("metadata %d %s", had+3, s.id))
	// The network namespace in which the metadata agent serves a network has a port in it.
	run(m.T, "ip", "netns", "exec", "ovnmeta-"+port.NetworkID, "busybox", "ping", "-c", "3", "-w", "60", address)
}

// metadata returns how often a server has got its metadata.
func (m *member) metadata(s *server) (times int) {
	m.T.Helper()
	text, err := os.ReadFile(m.console(s))
	if err != nil {
		m.T.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "metadata" {
			if times, err = strconv.Atoi(fields[1]); err != nil {
				m.T.Fatal(err)
			}
		}
	}
	return times
}
