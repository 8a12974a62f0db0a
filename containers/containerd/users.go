package containerd

import (
	"context"
	"os"
	"strings"

	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	continuity "github.com/containerd/continuity/fs"

	"github.com/kollet/kollet/containers"
)

// checkUsers returns an error if runc would wait for a file of a container that does not run. If
// nobody can look at it, the start may tell.
func (e *Engine) checkUsers(ctx context.Context, c ctr.Container) (refused error) {
	mounts, err := e.client.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	_ = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		for _, file := range containers.UsersFiles {
			at, err := continuity.RootPath(root, file) // resolves symbolic links inside the container
			if err != nil {
				continue
			}
			inside := strings.TrimPrefix(at, strings.TrimSuffix(root, "/"))
			info, err := os.Lstat(at)
			if err != nil {
				refused = containers.CheckUsers(file, inside, 0, 0)
			} else {
				refused = containers.CheckUsers(file, inside, info.Mode(), info.Size())
			}
			if refused != nil {
				return nil
			}
		}
		return nil
	})
	return refused
}
