package e2e

import "testing"

// TestOpenvswitchNode runs a node with Open vSwitch. It uses the userspace datapath,
// because not every kernel has the openvswitch module.
func TestOpenvswitchNode(t *testing.T) {
	onBothComputes(t, "openvswitch", openvswitch)
}

func openvswitch(t *testing.T, c *compute) {
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
