package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// requireListed fails if processes of this node run in a container that is not among all that its
// engine lists, and that count. The engine is another than that which created the container, or
// has lost sight of it.
func requireListed(ctx context.Context, n *node.Node, all []containers.Container, counts func(guest.Unlisted) bool) error {
	unlisted, err := n.Unlisted(ctx, all)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(unlisted, counts)
	if i < 0 {
		return nil
	}
	info, err := n.Engine.Info(ctx)
	if err != nil {
		return err
	}
	return unlistedError{unlisted[i], info}
}

// unlistedError says where a process runs, and which engine does not list its container.
type unlistedError struct {
	guest.Unlisted
	engine containers.Info
}

func (e unlistedError) Error() string {
	return fmt.Sprintf("%s runs in container %.12s (process %d), which %s does not list: if the engine at %s is not that which created it (--engine, DOCKER_HOST, CONTAINERD_ADDRESS, CONTAINER_HOST), or if its data directory, image store or namespace was switched, switch back; otherwise end the container's processes",
		e.Service, e.Container, e.PID, e.engine.Name, e.engine.Address)
}

// recoverable fails if the engine does not list every container of this node that runs: a recovery
// would take the others for removed, and would undo or finish an upgrade without them. So it
// does before the cutover, when new containers only wait at their gates. On an engine that has lost
// its containers, with their processes, a recovery ends with what is left.
func recoverable(ctx context.Context, n *node.Node) error {
	err := persist(ctx, func() error {
		all, err := n.Containers(ctx)
		if err != nil {
			return err
		}
		return requireListed(ctx, n, all, func(guest.Unlisted) bool { return true })
	})
	if u, ok := errors.AsType[unlistedError](err); ok {
		return node.NeedsOperator{Err: fmt.Errorf("nothing was recovered: %w; then run `kollet recover`", u)}
	}
	return unrecovered(n, err)
}
