// Package openstack asks the control plane about this node: whether Nova and
// Neutron see its services, which operations on servers are under way, and that
// no new server is placed on it.
package openstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/kollet/kollet/agent/wary"
)

// Access says where Keystone is and with which credentials kollet asks it for a
// token: those of a user, or an application credential.
type Access struct {
	AuthURL string

	Username, Password             string
	UserDomain                     string
	Project, ProjectDomain         string
	CredentialID, CredentialSecret string // an application credential, which has its own project

	Region    string
	Interface string // of the catalogue's endpoints: internal, public or admin

	CAFile   string    // certificate authorities of the APIs; empty: those of the host
	Writable wary.Dirs // directories to which containers can write: the way to CAFile follows no link in them

	PlacementURL string // that nova-compute is given; empty: it takes the catalogue's
}

// Cloud is the control plane, as far as it concerns one host.
type Cloud struct {
	host    string
	compute *gophercloud.ServiceClient
	network *gophercloud.ServiceClient

	placement string // URL; empty if nova-compute is given one, or the catalogue has none
}

// ErrUnknownHost means that the control plane does not list a service of this host.
var ErrUnknownHost = errors.New("not listed")

const (
	requestTimeout = 30 * time.Second // for one request
	retries        = 3                // of a request that was not answered
	retryPause     = time.Second

	// microversion of Nova's API since which services have UUIDs (2.53) and
	// migrations are listed in pages (2.59, Rocky).
	microversion = "2.59"
)

// Open asks for a token, and for the endpoints of Nova and Neutron. host is this
// node's name there.
func Open(ctx context.Context, a Access, host string) (*Cloud, error) {
	provider, err := openstack.NewClient(a.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("ask Keystone at %s: %w", a.AuthURL, explain(err))
	}
	transport, err := a.transport()
	if err != nil {
		return nil, err
	}
	provider.HTTPClient = http.Client{Transport: transport, Timeout: requestTimeout}
	provider.RetryFunc = retry
	provider.UserAgent.Prepend("kollet")
	provider.UseTokenLock()
	if err := openstack.Authenticate(ctx, provider, a.options()); err != nil {
		return nil, fmt.Errorf("ask Keystone at %s for a token: %w", a.AuthURL, explain(err))
	}
	endpoints := gophercloud.EndpointOpts{Region: a.Region, Availability: gophercloud.Availability(a.Interface)}
	compute, err := openstack.NewComputeV2(provider, endpoints)
	if err != nil {
		return nil, fmt.Errorf("find the %s endpoint of Nova in region %s: %w", a.Interface, a.Region, explain(err))
	}
	compute.Microversion = microversion
	network, err := openstack.NewNetworkV2(provider, endpoints)
	if err != nil {
		return nil, fmt.Errorf("find the %s endpoint of Neutron in region %s: %w", a.Interface, a.Region, explain(err))
	}
	c := &Cloud{host: host, compute: compute, network: network}
	if a.PlacementURL == "" {
		endpoints.ApplyDefaults("placement")
		// An error means that the catalogue has none, which nova-compute will say.
		c.placement, _ = provider.EndpointLocator(endpoints)
	}
	return c, nil
}

// Placement asks whether Placement answers at the catalogue's address: nova-compute
// does not start without it.
func (c *Cloud) Placement(ctx context.Context) error {
	if c.placement == "" {
		return nil
	}
	versions := []int{http.StatusOK, http.StatusMultipleChoices}
	answer, err := c.compute.ProviderClient.Request(ctx, http.MethodGet, c.placement, &gophercloud.RequestOpts{OkCodes: versions, KeepResponseBody: true})
	if err != nil {
		return fmt.Errorf("ask Placement at %s, without which nova-compute does not start: %w", c.placement, explain(err))
	}
	return answer.Body.Close()
}

func (a Access) options() gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: a.AuthURL, AllowReauth: true}
	if a.CredentialID != "" {
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = a.CredentialID, a.CredentialSecret
		return o
	}
	o.Username, o.Password, o.DomainName = a.Username, a.Password, a.UserDomain
	o.Scope = &gophercloud.AuthScope{ProjectName: a.Project, DomainName: a.ProjectDomain}
	return o
}

func (a Access) transport() (http.RoundTripper, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if a.CAFile == "" {
		return transport, nil
	}
	pem, err := a.Writable.ReadFile(a.CAFile, 16<<20)
	if err != nil {
		return nil, fmt.Errorf("read the certificate authorities of OpenStack: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read the certificate authorities of OpenStack: %s has no certificate in PEM format", a.CAFile)
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	return transport, nil
}
