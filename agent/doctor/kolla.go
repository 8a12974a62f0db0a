package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// checkKolla finds containers of kolla-ansible that run what a service would run, too: with
// their volumes and sockets, neither would work. On a node that kollet runs, kolla-ansible created them
// again, or they ran beside and their services were added to the node file.
func checkKolla(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	current, _ := n.Current() // other checks report what cannot be read
	adopted, _ := n.Store().Adopted()
	runs := len(current.Services) > 0 && !current.Adopted()
	var beside, remedies []string
	for _, s := range services {
		c, err := n.Engine.Inspect(ctx, adopt.ContainerName(s.Name))
		if err != nil || c.Spec.Labels[node.LabelNode] != "" || !adopt.IsKolla(c) || c.State.Stopped() {
			continue
		}
		beside = append(beside, c.Spec.Name)
		_, replaced := current.Service(s.Name)
		switch {
		case s.Guests == nil:
			remedies = append(remedies, n.StopKolla(c))
		case replaced || len(adopted.Containers) == 0:
			remedies = append(remedies, fmt.Sprintf("%s, after guests that were started in it have been migrated away", n.StopKolla(c)))
		default:
			remedies = append(remedies, fmt.Sprintf("do not stop %s, whose guests would die: `kollet rollback 0`, then `kollet adopt` takes it over with them", c.Spec.Name))
		}
	}
	if len(beside) == 0 {
		return nil
	}
	remedy := "`kollet adopt` takes them over, and `kollet adopt --plan` says what would change"
	if runs {
		remedy = strings.Join(remedies, "; ")
	}
	text := fmt.Sprintf("kolla-ansible runs %s, which the node file's services would run beside", strings.Join(beside, ", "))
	return []Check{{"kolla", Bad, text, remedy + "; to leave them to kolla-ansible, remove these services from the node file"}}
}

// kollaHolds returns the container of kolla-ansible in which a process runs; empty if there is none.
func kollaHolds(ctx context.Context, n *node.Node, pid int) string {
	all, err := n.Engine.List(ctx, nil)
	if err != nil {
		return "" // it is a stranger, whatever it is
	}
	all = slices.DeleteFunc(all, func(c containers.Container) bool { return !adopt.IsKolla(c) })
	if c := holder(n, all, pid); c != nil {
		return c.Spec.Name
	}
	return ""
}
