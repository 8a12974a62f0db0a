package agent

import (
	"context"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/containers"
)

// Guest is a guest and what a stop of its libvirt would do to it.
type Guest struct {
	guest.Guest
	Image     string   `json:"image,omitempty"`     // that it runs from
	Container string   `json:"container,omitempty"` // that is kept for it
	Exposed   []string `json:"exposed,omitempty"`   // cgroup hierarchies in which it sits in the container of the libvirt that runs; kollet moves it out before it stops the container
}

// Guests lists the node's guests.
func (a *Agent) Guests(ctx context.Context) ([]Guest, error) {
	found, err := a.node.Guests()
	if err != nil {
		return nil, err
	}
	current, err := a.node.Store().Current()
	if err != nil {
		return nil, err
	}
	guests := []Guest{}
	for _, g := range found {
		shown := Guest{Guest: g}
		if made, err := a.node.Store().Load(g.Generation); err == nil {
			if s, ok := made.Service(g.Service); ok {
				shown.Image = s.Ref
			}
		}
		if c, err := a.node.Container(ctx, g.Service, g.Generation); err == nil {
			shown.Container = c.Spec.Name
		}
		// The libvirt that runs may be a later one than the guest's own.
		if s, ok := current.Service(g.Service); ok {
			if c, err := a.node.Container(ctx, s.Name, s.Origin); err == nil {
				if shown.Exposed, err = a.exposed(c, g.PID); err != nil {
					return nil, err
				}
			}
		}
		guests = append(guests, shown)
	}
	return guests, nil
}

func (a *Agent) exposed(c containers.Container, pid int) ([]string, error) {
	if c.State != containers.StateRunning {
		return nil, nil
	}
	cgroup, err := a.node.Host.CgroupOf(c.PID)
	if err != nil {
		return nil, err
	}
	return cgroup.Holds(pid)
}
