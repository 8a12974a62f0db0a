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
		if err != nil || c.Spec.Labels[node.LabelNode] != "" || !node.IsKolla(c) || c.State.Stopped() {
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

// checkStartedAgain finds containers of generation 0 that run beside what has replaced them.
func checkStartedAgain(ctx context.Context, n *node.Node) []Check {
	current, err := n.Current()
	adopted, err2 := n.Store().Adopted()
	if err != nil || err2 != nil {
		return nil // other checks report it
	}
	var checks []Check
	for _, s := range current.Services {
		was, ok := adopted.Containers[s.Name]
		if !ok || s.Origin == 0 {
			continue
		}
		if c, err := n.Engine.Inspect(ctx, was.ID); err == nil && !c.State.Stopped() {
			checks = append(checks, Check{"kolla", Bad, fmt.Sprintf("kolla-ansible's container %s was started again, beside %s", c.Spec.Name, s.Name), "`kollet upgrade` stops it"})
		}
	}
	return checks
}

// checkUnadopted says how a node that kolla-ansible runs gets its node file.
func checkUnadopted(ctx context.Context, n *node.Node) []Check {
	all, err := n.Engine.List(ctx, nil)
	if err != nil {
		return nil // the check of the engine reports it
	}
	at := slices.IndexFunc(all, func(c containers.Container) bool { return node.IsKolla(c) && !c.State.Stopped() })
	if at < 0 {
		return nil
	}
	return []Check{{"kolla", Warning, fmt.Sprintf("kolla-ansible runs this node, with %s among others", all[at].Spec.Name), "`kollet adopt --plan` proposes a node file, and `kollet adopt` takes the node over"}}
}

// kollaHolds returns the container of kolla-ansible in which a process runs; empty if there is none.
func kollaHolds(ctx context.Context, n *node.Node, pid int) string {
	all, err := n.Engine.List(ctx, nil)
	if err != nil {
		return "" // it is a stranger, whatever it is
	}
	all = slices.DeleteFunc(all, func(c containers.Container) bool { return !node.IsKolla(c) })
	if c := holder(n, all, pid); c != nil {
		return c.Spec.Name
	}
	return ""
}
