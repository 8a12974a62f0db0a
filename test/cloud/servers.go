package cloud

import (
	"net/http"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/attachinterfaces"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
)

// CreateServer asks Nova for a server and returns its id. It has a port on the network, or
// none if the name is empty. It runs on the host, or where the scheduler wants if the name is
// empty.
func (c *Client) CreateServer(name, host, network string) string {
	c.t.Helper()
	opts := servers.CreateOpts{Name: name, ImageRef: c.ImageID(), FlavorRef: c.FlavorID(), Networks: "none"}
	if network != "" {
		opts.Networks = []servers.Network{{UUID: c.NetworkID(network)}}
	}
	if host != "" {
		opts.AvailabilityZone = "nova:" + host
	}
	server, err := servers.Create(c.ctx(), c.Compute, opts, nil).Extract()
	c.check("create the server "+name, err)
	return server.ID
}

// Server returns what Nova knows about a server.
func (c *Client) Server(id string) *servers.Server {
	c.t.Helper()
	server, err := servers.Get(c.ctx(), c.Compute, id).Extract()
	c.check("ask for the server "+id, err)
	return server
}

// AwaitActive waits until a server is ACTIVE and Nova has nothing to do with it.
func (c *Client) AwaitActive(id string) { c.t.Helper(); c.awaitStatus(id, "ACTIVE") }

func (c *Client) awaitStatus(id, status string) {
	c.t.Helper()
	c.await("the server "+id+" to be "+status, func() bool {
		server := c.Server(id)
		if server.Status == "ERROR" && status != "ERROR" {
			c.t.Fatalf("the server %s (%s) is in state ERROR: %s\n%s", server.Name, id, server.Fault.Message, server.Fault.Details)
		}
		return server.Status == status && server.TaskState == ""
	})
}

// Stop shuts a server down and waits until it is.
func (c *Client) Stop(id string) {
	c.t.Helper()
	c.check("stop the server "+id, servers.Stop(c.ctx(), c.Compute, id).ExtractErr())
	c.awaitStatus(id, "SHUTOFF")
}

// Start starts a server and waits until it is ACTIVE.
func (c *Client) Start(id string) {
	c.t.Helper()
	c.check("start the server "+id, servers.Start(c.ctx(), c.Compute, id).ExtractErr())
	c.AwaitActive(id)
}

// HardReboot starts a server's QEMU again, and waits until it is ACTIVE.
func (c *Client) HardReboot(id string) {
	c.t.Helper()
	c.check("reboot the server "+id, servers.Reboot(c.ctx(), c.Compute, id, servers.RebootOpts{Type: servers.HardReboot}).ExtractErr())
	c.AwaitActive(id)
}

// Rebuild replaces a server's disk and waits until it is ACTIVE.
func (c *Client) Rebuild(id string) {
	c.t.Helper()
	_, err := servers.Rebuild(c.ctx(), c.Compute, id, servers.RebuildOpts{ImageRef: c.ImageID()}).Extract()
	c.check("rebuild the server "+id, err)
	c.AwaitActive(id)
}

// AttachPort gives a server a port on a network, waits until the port is up, and returns its
// id.
func (c *Client) AttachPort(id, network string) string {
	c.t.Helper()
	made, err := attachinterfaces.Create(c.ctx(), c.Compute, id, attachinterfaces.CreateOpts{NetworkID: c.NetworkID(network)}).Extract()
	c.check("attach a port to the server "+id, err)
	c.await("the port "+made.PortID+" to be ACTIVE", func() bool {
		port, err := ports.Get(c.ctx(), c.Network, made.PortID).Extract()
		c.check("ask for the port "+made.PortID, err)
		return port.Status == "ACTIVE"
	})
	return made.PortID
}

// DetachPort takes a port away and waits until the server no longer has it.
func (c *Client) DetachPort(id, port string) {
	c.t.Helper()
	c.check("detach a port from the server "+id, attachinterfaces.Delete(c.ctx(), c.Compute, id, port).ExtractErr())
	c.await("the port "+port+" to be detached", func() bool {
		for _, p := range c.Ports(id) {
			if p.ID == port {
				return false
			}
		}
		return true
	})
}

// AllowPing lets servers of the administrator's project answer anyone's pings.
func (c *Client) AllowPing() {
	c.t.Helper()
	page, err := groups.List(c.Network, groups.ListOpts{Name: "default"}).AllPages(c.ctx())
	c.check("list security groups", err)
	all, err := groups.ExtractGroups(page)
	c.check("list security groups", err)
	for _, group := range all {
		_, err := rules.Create(c.ctx(), c.Network, rules.CreateOpts{
			SecGroupID: group.ID, Direction: rules.DirIngress, EtherType: rules.EtherType4, Protocol: rules.ProtocolICMP,
		}).Extract()
		if !gophercloud.ResponseCodeIs(err, http.StatusConflict) { // it exists already
			c.check("allow pings", err)
		}
	}
}

// Ports lists a server's ports.
func (c *Client) Ports(id string) []ports.Port {
	c.t.Helper()
	page, err := ports.List(c.Network, ports.ListOpts{DeviceID: id}).AllPages(c.ctx())
	c.check("list the ports of the server "+id, err)
	all, err := ports.ExtractPorts(page)
	c.check("list the ports of the server "+id, err)
	return all
}

// Console returns a server's console log, through Nova.
func (c *Client) Console(id string) string {
	c.t.Helper()
	text, err := c.TryConsole(id)
	c.check("ask for the console log of the server "+id, err)
	return text
}

// TryConsole is Console on a node that may be too busy to answer within Nova's timeout of a
// minute.
func (c *Client) TryConsole(id string) (string, error) {
	return servers.ShowConsoleOutput(c.ctx(), c.Compute, id, servers.ShowConsoleOutputOpts{}).Extract()
}

// Delete deletes a server and waits until Nova no longer knows it.
func (c *Client) Delete(id string) {
	c.t.Helper()
	c.check("delete the server "+id, servers.Delete(c.ctx(), c.Compute, id).ExtractErr())
	c.await("the server "+id+" to be deleted", func() bool {
		server, err := servers.Get(c.ctx(), c.Compute, id).Extract()
		if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
			return true
		}
		c.check("ask for the server "+id, err)
		if server.Status == "ERROR" {
			c.t.Fatalf("the server %s could not be deleted: %s", id, server.Fault.Message)
		}
		return false
	})
}
