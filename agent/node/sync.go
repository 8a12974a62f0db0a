package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/kollet/kollet/agent/durable"
)

// Sync puts on stable storage what the engine has of images, containers and volumes. An
// engine records that it has an image, but does not wait until the image's files are on
// stable storage: for half a minute a power loss leaves them empty, and the image is not
// pulled again.
func (n *Node) Sync(ctx context.Context) error {
	info, err := n.Engine.Info(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(durable.SyncFS(info.Root), durable.SyncFS(n.State())); err != nil {
		return fmt.Errorf("sync images and containers: %w", err)
	}
	return nil
}
