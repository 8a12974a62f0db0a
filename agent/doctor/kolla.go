package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
)

// checkKolla finds containers of kolla-ansible that run what a service would run, too: with
// their volumes and sockets, neither would work.
func checkKolla(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	var beside []string
	for _, s := range services {
		c, err := n.Engine.Inspect(ctx, adopt.ContainerName(s.Name))
		if err == nil && c.Spec.Labels[node.LabelNode] == "" && adopt.IsKolla(c) && !c.State.Stopped() {
			beside = append(beside, c.Spec.Name)
		}
	}
	if len(beside) == 0 {
		return nil
	}
	text := fmt.Sprintf("kolla-ansible runs %s, which the node file's services would run beside", strings.Join(beside, ", "))
	return []Check{{"kolla", Bad, text, "remove these services from the node file, or the containers from the node; `kollet adopt --plan` says what could be taken over"}}
}
