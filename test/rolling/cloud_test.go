package rolling

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"

	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/site"
)

// control is a control plane, and what servers are made from.
type control struct {
	*cloud.Cloud
	*cloud.Client
	t testing.TB

	guest, flavor, network string // IDs
}

// newControl starts a control plane on the control machine, at an address that all nodes
// reach.
func newControl(s *site.Site) *control {
	s.T.Helper()
	c := &control{Cloud: cloud.New(s.T, cloud.Address(site.Address)), t: s.T}
	c.Client = c.Cloud.Client(s.T)
	c.guest, c.flavor, c.network = c.ImageID(), c.FlavorID(), c.NetworkID(cloud.Provider)
	return c
}

// join makes a node one of the cloud's.
func (c *control) join(n *compute) {
	c.t.Helper()
	for _, name := range []string{"rabbit", "nova", "placement", "neutron"} {
		secret, err := os.ReadFile(c.Secret(name))
		check(c.t, err)
		n.write("/etc/kollet/secrets/"+name+"_password", string(secret))
		n.secrets = append(n.secrets, fmt.Sprintf("%s_password: {file: /etc/kollet/secrets/%s_password}", name, name))
	}
	n.vars = append(n.vars, "rabbit_host: "+site.Address, fmt.Sprintf("auth_url: %q", c.AuthURL), `physical_interface_mappings: "physnet1:eth1"`)
}

// hosts lists the hosts on which the scheduler may place servers now.
func (c *control) hosts(ctx context.Context) ([]string, error) {
	pages, err := services.List(c.Compute, services.ListOpts{Binary: "nova-compute"}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	all, err := services.ExtractServices(pages)
	var hosts []string
	for _, s := range all {
		if s.State == "up" && s.Status == "enabled" {
			hosts = append(hosts, s.Host)
		}
	}
	return hosts, err
}

// awaitHosts waits until the scheduler may use that many hosts.
func (c *control) awaitHosts(count int) {
	c.t.Helper()
	for until := time.Now().Add(cloud.Patience); ; time.Sleep(time.Second) {
		hosts, err := c.hosts(c.t.Context())
		check(c.t, err)
		if len(hosts) == count {
			return
		}
		if time.Now().After(until) {
			c.t.Fatalf("hosts in service: %q, want %d", hosts, count)
		}
	}
}

// server is what this package reads of Nova's servers.
type server struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Task   string `json:"OS-EXT-STS:task_state"`
	Host   string `json:"OS-EXT-SRV-ATTR:host"`
	Fault  struct {
		Message string `json:"message"`
	} `json:"fault"`
}

func (c *control) server(ctx context.Context, id string) (server, error) {
	var s server
	err := servers.Get(ctx, c.Compute, id).ExtractInto(&s)
	return s, err
}

func gone(err error) bool { return gophercloud.ResponseCodeIs(err, http.StatusNotFound) }
