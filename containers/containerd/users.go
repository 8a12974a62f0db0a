package containerd

import (
	"context"
	"io/fs"
	"os"
	"slices"

	ctr "github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
)

// checkUsers returns an error if runc would wait for a file of a container that does not run. If
// nobody can look at it, the start may tell.
func (e *Engine) checkUsers(ctx context.Context, c ctr.Container) (refused error) {
	spec, err := ociOf(c)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	mounts, err := e.client.SnapshotService(c.Snapshotter).Mounts(ctx, c.SnapshotKey)
	if err != nil {
		return nil //nolint:nilerr // see above
	}
	_ = mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
		refused = viewOf(root, spec.Mounts).checkUsers()
		return nil
	})
	return refused
}

func (v view) checkUsers() error {
	for _, file := range containers.UsersFiles {
		at := v.resolve(file)
		mode, size := v.stat(at)
		if err := containers.CheckUsers(file, at, mode, size); err != nil {
			return err
		}
	}
	return nil
}

// stat returns the mode and the size of what is at a path without links; 0 if there is nothing.
func (v view) stat(at string) (fs.FileMode, int64) {
	f := v.hold(at)
	if f == nil {
		return 0, 0
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil, info.Mode()&fs.ModeSymlink != 0: // after too many links, which nobody follows
		return 0, 0
	case info.Mode().IsRegular() && madeByKernel(f):
		return fs.ModeIrregular, 0
	}
	return info.Mode(), info.Size()
}

// madeByKernel reports whether the kernel makes up what a file holds, so that reading it may wait:
// a volume can be one of the host's file systems of this kind.
func madeByKernel(f *os.File) bool {
	var st unix.Statfs_t
	kinds := []int64{unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC}
	return unix.Fstatfs(int(f.Fd()), &st) == nil && slices.Contains(kinds, st.Type)
}

// endStuckStart ends a start by the restart monitor that waits for a list of users, and keeps the
// monitor from trying again. Until then the monitor starts no other container either.
func (e *Engine) endStuckStart(ctx context.Context, id string) error {
	why := killStuckStart(id)
	if why == nil {
		return nil
	}
	c, err := e.client.ContainerService().Get(ctx, id)
	if err != nil {
		return err
	}
	return e.failed(ctx, c, why)
}
