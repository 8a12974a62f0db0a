package openstack

import (
	"context"
	"fmt"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/agents"
	"github.com/gophercloud/gophercloud/v2/pagination"
)

// ComputeService is this host's nova-compute as Nova sees it.
type ComputeService struct {
	ID             string `json:"id"`
	Binary         string `json:"binary"`
	Host           string `json:"host"`
	Status         string `json:"status"` // enabled: servers may be placed here
	DisabledReason string `json:"disabled_reason"`
	State          string `json:"state"` // up: it reported within Nova's service_down_time
	ForcedDown     bool   `json:"forced_down"`
	UpdatedAt      string `json:"updated_at"` // changes with each of its reports, by the clock of a conductor
}

// Enabled reports whether Nova may place servers on the host.
func (s ComputeService) Enabled() bool { return s.Status == "enabled" }

// ComputeService finds this host's compute service; binary is nova-compute.
// ErrUnknownHost if Nova lists none.
func (c *Cloud) ComputeService(ctx context.Context, binary string) (ComputeService, error) {
	pages, err := services.List(c.compute, services.ListOpts{Host: c.host, Binary: binary}).AllPages(ctx)
	if err != nil {
		return ComputeService{}, fmt.Errorf("ask Nova for the %s of host %s: %w", binary, c.host, explain(err))
	}
	var found struct{ Services []ComputeService }
	if err := pages.(services.ServicePage).ExtractInto(&found); err != nil {
		return ComputeService{}, fmt.Errorf("ask Nova for the %s of host %s: %w", binary, c.host, err)
	}
	for _, s := range found.Services {
		if s.Host == c.host && s.Binary == binary {
			return s, nil
		}
	}
	return ComputeService{}, fmt.Errorf("%s of host %s in Nova: %w", binary, c.host, ErrUnknownHost)
}

// Disable keeps Nova from placing servers on the host.
func (c *Cloud) Disable(ctx context.Context, id, reason string) error {
	r := services.Update(ctx, c.compute, id, services.UpdateOpts{Status: services.ServiceDisabled, DisabledReason: reason})
	if r.Err != nil {
		return fmt.Errorf("disable the compute service of host %s: %w", c.host, explain(r.Err))
	}
	return nil
}

// Enable lets Nova place servers on the host again.
func (c *Cloud) Enable(ctx context.Context, id string) error {
	r := services.Update(ctx, c.compute, id, services.UpdateOpts{Status: services.ServiceEnabled})
	if r.Err != nil {
		return fmt.Errorf("enable the compute service of host %s: %w", c.host, explain(r.Err))
	}
	return nil
}

// Agent is one of this host's network agents as Neutron sees it.
type Agent struct {
	ID                 string `json:"id"`
	Binary             string `json:"binary"`
	Host               string `json:"host"`
	Alive              bool   `json:"alive"`               // it reported within Neutron's agent_down_time
	StartedAt          string `json:"started_at"`          // changes with the first report after its start
	HeartbeatTimestamp string `json:"heartbeat_timestamp"` // changes with each report
}

// agentPage is Neutron's answer. gophercloud's own reads the timestamps, and fails on those
// of OVN's agents.
type agentPage struct{ pagination.SinglePageBase }

// IsEmpty is asked when there may be another page, which there is not.
func (agentPage) IsEmpty() (bool, error) { return false, nil }

// Agent finds one of this host's network agents. ErrUnknownHost if Neutron lists
// none.
func (c *Cloud) Agent(ctx context.Context, binary string) (Agent, error) {
	list := agents.List(c.network, agents.ListOpts{Host: c.host, Binary: binary}).
		WithPageCreator(func(r pagination.PageResult) pagination.Page { return agentPage{pagination.SinglePageBase(r)} })
	pages, err := list.AllPages(ctx)
	if err != nil {
		return Agent{}, fmt.Errorf("ask Neutron for the %s of host %s: %w", binary, c.host, explain(err))
	}
	var found struct{ Agents []Agent }
	if err := pages.(agentPage).ExtractInto(&found); err != nil {
		return Agent{}, fmt.Errorf("ask Neutron for the %s of host %s: %w", binary, c.host, err)
	}
	for _, a := range found.Agents {
		if a.Host == c.host && a.Binary == binary {
			return a, nil
		}
	}
	return Agent{}, fmt.Errorf("%s of host %s in Neutron: %w", binary, c.host, ErrUnknownHost)
}
