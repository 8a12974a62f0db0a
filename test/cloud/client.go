package cloud

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/hypervisors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
)

// Patience is how long to wait for something that takes seconds on a quiet machine. It only
// limits how long a broken test hangs: a busy machine is slower by a factor of ten.
const Patience = 15 * time.Minute

// Client asks the APIs as the administrator. Its methods fail the test if a request fails.
type Client struct {
	Compute   *gophercloud.ServiceClient
	Network   *gophercloud.ServiceClient
	Image     *gophercloud.ServiceClient
	Placement *gophercloud.ServiceClient

	t testing.TB
}

// Client returns a client for the APIs. Tokens are renewed.
func (c *Cloud) Client(t testing.TB) *Client {
	t.Helper()
	password := c.docker("exec", container, "cat", "/var/lib/controller/secrets/admin_password")
	provider, err := openstack.AuthenticatedClient(t.Context(), gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, Username: "admin", Password: password,
		TenantName: "admin", DomainName: "Default", AllowReauth: true,
	})
	if err != nil {
		t.Fatalf("log in at %s: %v", c.AuthURL, err)
	}
	client := &Client{t: t}
	where := gophercloud.EndpointOpts{Region: "RegionOne"}
	for _, service := range []struct {
		client **gophercloud.ServiceClient
		find   func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	}{
		{&client.Compute, openstack.NewComputeV2},
		{&client.Network, openstack.NewNetworkV2},
		{&client.Image, openstack.NewImageV2},
		{&client.Placement, openstack.NewPlacementV1},
	} {
		if *service.client, err = service.find(provider, where); err != nil {
			t.Fatalf("find a service in the catalogue: %v", err)
		}
	}
	client.Compute.Microversion = "2.79" // networks: none, and ids of services
	return client
}

// ComputeServices lists the services that Nova knows, its own and those of compute nodes.
// UpdatedAt is the time of the last heartbeat.
func (c *Client) ComputeServices() []services.Service {
	c.t.Helper()
	page, err := services.List(c.Compute, nil).AllPages(c.ctx())
	c.check("list Nova's services", err)
	all, err := services.ExtractServices(page)
	c.check("list Nova's services", err)
	return all
}

// Agent is an agent that Neutron knows. gophercloud does not read the heartbeats of OVN's.
type Agent struct {
	ID        string    `json:"id"`
	Type      string    `json:"agent_type"`
	Binary    string    `json:"binary"`
	Host      string    `json:"host"`
	Alive     bool      `json:"alive"`
	Heartbeat heartbeat `json:"heartbeat_timestamp"`
}

type heartbeat struct{ time.Time }

// UnmarshalJSON reads the time of an agent, 2026-11-24 01:02:03, or of OVN's,
// 2026-11-24 01:02:03.456000+00:00.
func (h *heartbeat) UnmarshalJSON(text []byte) (err error) {
	whole, _, _ := strings.Cut(strings.Trim(string(text), `"`), "+")
	h.Time, err = time.Parse(time.DateTime, whole) // which accepts a fraction
	return err
}

// Agents lists the agents that Neutron knows, with their heartbeats.
func (c *Client) Agents() []Agent {
	c.t.Helper()
	var found struct{ Agents []Agent }
	answer, err := c.Network.Get(c.ctx(), c.Network.ServiceURL("agents"), &found, nil)
	_, _, err = gophercloud.ParseResponse(answer, err)
	c.check("list Neutron's agents", err)
	return found.Agents
}

// ForgetAgents removes what Neutron knows of the agents of a host.
func (c *Client) ForgetAgents(host string) {
	c.t.Helper()
	for _, a := range c.Agents() {
		if a.Host == host {
			c.check("remove the agent of "+host, agents.Delete(c.ctx(), c.Network, a.ID).ExtractErr())
		}
	}
}

// AwaitCompute waits until Nova sees the node's service up and enabled, with a heartbeat
// after the given time, and can place servers on the node, and returns the service.
func (c *Client) AwaitCompute(host string, after time.Time) (found services.Service) {
	c.t.Helper()
	c.await("nova-compute of "+host+" to be up and enabled", func() bool {
		for _, s := range c.ComputeServices() {
			if s.Binary == "nova-compute" && s.Host == host && s.State == "up" && s.Status == "enabled" && s.UpdatedAt.After(after) {
				found = s
				return c.mapped(host)
			}
		}
		return false
	})
	return found
}

// mapped reports whether Nova has mapped a host to a cell, some seconds after its service
// came up for the first time. Hypervisors without a mapping are not listed (_get_hypervisors
// in nova/api/openstack/compute/hypervisors.py).
func (c *Client) mapped(host string) bool {
	c.t.Helper()
	page, err := hypervisors.List(c.Compute, nil).AllPages(c.ctx())
	c.check("list Nova's hypervisors", err)
	all, err := hypervisors.ExtractHypervisors(page)
	c.check("list Nova's hypervisors", err)
	return slices.ContainsFunc(all, func(h hypervisors.Hypervisor) bool { return h.Service.Host == host })
}

// AwaitAgent waits until Neutron sees the node's network agent alive, with a heartbeat after
// the given time, and returns it.
func (c *Client) AwaitAgent(host string, after time.Time) (found Agent) {
	c.t.Helper()
	c.await("the network agent of "+host+" to be alive", func() bool {
		for _, a := range c.Agents() {
			if a.Host == host && a.Alive && a.Heartbeat.After(after) {
				found = a
				return true
			}
		}
		return false
	})
	return found
}

// ImageID returns the id of the guest's image.
func (c *Client) ImageID() string {
	c.t.Helper()
	page, err := images.List(c.Image, images.ListOpts{Name: Image}).AllPages(c.ctx())
	c.check("list images", err)
	all, err := images.ExtractImages(page)
	c.check("list images", err)
	if len(all) != 1 {
		c.t.Fatalf("found %d images with the name %s", len(all), Image)
	}
	return all[0].ID
}

// FlavorID returns the id of the flavor.
func (c *Client) FlavorID() string {
	c.t.Helper()
	page, err := flavors.ListDetail(c.Compute, nil).AllPages(c.ctx())
	c.check("list flavors", err)
	all, err := flavors.ExtractFlavors(page)
	c.check("list flavors", err)
	for _, f := range all {
		if f.Name == Flavor {
			return f.ID
		}
	}
	c.t.Fatalf("there is no flavor %s", Flavor)
	return ""
}

// NetworkID returns the id of a network.
func (c *Client) NetworkID(name string) string {
	c.t.Helper()
	page, err := networks.List(c.Network, networks.ListOpts{Name: name}).AllPages(c.ctx())
	c.check("list networks", err)
	all, err := networks.ExtractNetworks(page)
	c.check("list networks", err)
	if len(all) != 1 {
		c.t.Fatalf("found %d networks with the name %s", len(all), name)
	}
	return all[0].ID
}

// await waits until the condition holds.
func (c *Client) await(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(Patience); !holds(); time.Sleep(500 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatalf("waited %v for %s", Patience, what)
		}
	}
}

func (c *Client) check(doing string, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatalf("%s: %v", doing, err)
	}
}

// ctx is not the test's context, which is cancelled before cleanups run.
func (c *Client) ctx() context.Context { return context.Background() }
