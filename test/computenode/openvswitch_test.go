package computenode

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/nodetest"
)

// TestOpenvswitchNode runs a node with Open vSwitch. It uses the userspace datapath,
// because not every kernel has the openvswitch module.
func TestOpenvswitchNode(t *testing.T) {
	onEachCompute(t, "openvswitch", openvswitch)
}

func openvswitch(t *testing.T, c *compute) {
	c.Write("/etc/kollet/config/neutron/openvswitch_agent.ini", "[ovs]\ndatapath_type = netdev\n")
	c.Configure()
	filled(t, filepath.Dir(c.Instances()))
	c.Must(0, "bootstrap")
	if info, err := os.Stat(c.Instances()); err != nil || !info.IsDir() {
		t.Fatalf("the directory of instances: %v, %v", info, err)
	}
	if s := c.Healthy(1); len(s.Services) != 5 {
		t.Fatalf("services: %+v", s.Services)
	}
	c.Connected("neutron-openvswitch-agent")
	contains(t, c.Must(0, "exec", "openvswitch-vswitchd", "--", "ovs-vsctl", "list-br").Stdout, "br-int")
	c.Must(0, "verify")
	c.Images = map[string]string{"neutron-openvswitch-agent": newVersion}
	libvirt, db := c.Service("nova-libvirt"), c.Service("openvswitch-db-server")
	c.Upgrade()
	nodetest.Same(t, libvirt, c.Service("nova-libvirt"))
	nodetest.Same(t, db, c.Service("openvswitch-db-server"))
	c.Connected("neutron-openvswitch-agent")

	// The agent is replaced with what it depends on.
	agent, vswitchd := c.Service("neutron-openvswitch-agent"), c.Service("openvswitch-vswitchd")
	c.Images["openvswitch-db-server"] = newVersion
	c.Upgrade()
	nodetest.Same(t, vswitchd, c.Service("openvswitch-vswitchd"))
	if now := c.Service("neutron-openvswitch-agent"); now.Container == agent.Container {
		t.Fatalf("the agent is still the one before: %+v", now)
	}
	c.Connected("neutron-openvswitch-agent")
}

// filled makes a volume as if nova-libvirt's container had been the first to use it.
func filled(t *testing.T, volume string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(volume, "libvirt"), 0o755); err != nil {
		t.Fatal(err)
	}
}
