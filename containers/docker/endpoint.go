package docker

import (
	"context"
	"fmt"
	"regexp"

	"github.com/docker/docker/api/types/container"
)

// staleEndpoint is what Docker says if a container's endpoint in a network is still there,
// although the container does not run: on a full disk, Docker could not remove it.
var staleEndpoint = regexp.MustCompile(`endpoint with name (\S+) already exists in network (\S+)`)

// startWithoutStale starts a container whose start failed with an error. If a stale endpoint was
// the reason, that is removed first. Docker removes one by name only if no container has that
// name, so the container has another one meanwhile.
func (e *Engine) startWithoutStale(ctx context.Context, id string, failed error) error {
	found := staleEndpoint.FindStringSubmatch(failed.Error())
	if found == nil {
		return failed
	}
	name, network := found[1], found[2]
	if err := e.client.ContainerRename(ctx, id, name+"-endpoint"); err != nil {
		return fmt.Errorf("%w; rename it to remove that: %w", failed, err)
	}
	removed := e.client.NetworkDisconnect(ctx, network, name, true)
	// A signal does not leave it with the other name.
	if err := e.client.ContainerRename(context.WithoutCancel(ctx), id, name); err != nil {
		return fmt.Errorf("%w; name it again: %w", failed, err)
	}
	if removed != nil {
		return fmt.Errorf("%w; remove that: %w", failed, removed)
	}
	return e.client.ContainerStart(ctx, id, container.StartOptions{})
}
