package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/openstack"
	"github.com/kollet/kollet/agent/quiesce"
	"github.com/kollet/kollet/agent/target"
)

// cloudTimeout bounds how long the doctor waits for the control plane.
const cloudTimeout = 30 * time.Second

// checkOpenStack asks the control plane what an upgrade asks it, with the node file's
// credentials. It has nothing to say without them.
func checkOpenStack(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	bad := func(err error, remedy string) []Check {
		return append(checkDisabled(n), Check{"openstack", Bad, target.RedactorOf(n).Error(err).Error(), remedy})
	}
	c := target.CloudOf(n)
	if c.Access == nil { // what is wrong with the node file is a finding of its own
		return checkDisabled(n)
	}
	ctx, cancel := context.WithTimeout(ctx, cloudTimeout)
	defer cancel()
	cloud, err := openstack.Open(ctx, *c.Access, n.Name)
	if err != nil {
		return bad(err, "check openstack in the node file, and the control plane")
	}
	if _, err := cloud.Operations(ctx); err != nil {
		return bad(err, "see docs/openstack.md for the rights that kollet needs")
	}
	if err := cloud.Placement(ctx); err != nil {
		return bad(err, "start or repair it, or set placement_url to where it is")
	}
	text := []string{"Keystone, Nova and Neutron answer"}
	var missing []Check
	for _, s := range services {
		if s.ListedAs == nil {
			continue
		}
		var seen string
		if s.ListedAs.Nova != "" {
			found, failed := cloud.ComputeService(ctx, s.ListedAs.Nova)
			seen, err = found.State+" and "+found.Status, failed
		} else {
			found, failed := cloud.Agent(ctx, s.ListedAs.Neutron)
			seen, err = map[bool]string{true: "alive", false: "dead"}[found.Alive], failed
		}
		switch {
		case errors.Is(err, openstack.ErrUnknownHost):
			seen = "not listed"
			if runs(n, s.Name) {
				missing = append(missing, Check{"openstack", Warning, fmt.Sprintf("%s: %v", s.Name, err), "an upgrade of " + s.Name + " would be refused or rolled back; check listed_as, and that a host option in an override is the name that kollet --host has"})
			}
		case err != nil:
			return bad(err, "see docs/openstack.md for the rights that kollet needs")
		}
		text = append(text, cmp.Or(s.ListedAs.Nova, s.ListedAs.Neutron)+" is "+seen)
	}
	return append(append(checkDisabled(n), Check{Name: "openstack", Level: Fine, Text: strings.Join(text, "; ")}), missing...)
}

// runs reports whether a service is in the node's current generation, and should therefore
// be listed.
func runs(n *node.Node, service string) bool {
	current, err := n.Current()
	return err == nil && slices.ContainsFunc(current.Services, func(s generation.Service) bool { return s.Name == service })
}

// checkDisabled finds a compute service that an earlier command could not enable.
func checkDisabled(n *node.Node) []Check {
	m, err := quiesce.Store{Dir: n.State()}.Marked()
	switch {
	case err != nil:
		return []Check{{Name: "compute service", Level: Bad, Text: err.Error()}}
	case m != nil:
		return []Check{{"compute service", Warning, fmt.Sprintf("kollet disabled it at %s (%q)", m.Since.Format(time.RFC3339), m.Reason), "kollet recover, unless an upgrade is running"}}
	}
	return nil
}
