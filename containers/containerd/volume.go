package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/mount"
	continuity "github.com/containerd/continuity/fs"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// createVolumes creates the absent named volumes of a spec, with content, owners and
// modes of the image's directory at the target. It returns the volumes that it
// created. Each volume is created completely or not at all.
func (e *Engine) createVolumes(ctx context.Context, spec containers.Spec, rootfs []mount.Mount) (created []string, err error) {
	absent := map[string]string{}
	for _, m := range spec.Mounts {
		if m.Type == containers.Volume {
			if _, err := os.Lstat(e.volume(m.Source)); errors.Is(err, fs.ErrNotExist) {
				absent[m.Source] = m.Target
			} else if err != nil {
				return nil, err
			}
		}
	}
	if len(absent) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(e.volume(""), 0o711); err != nil {
		return nil, err
	}
	err = mount.WithReadonlyTempMount(ctx, rootfs, func(root string) error {
		for name, target := range absent {
			if err := e.createVolume(root, name, target); err != nil {
				return fmt.Errorf("volume %s: %w", name, err)
			}
			created = append(created, name)
		}
		return nil
	})
	return created, err
}

func (e *Engine) createVolume(root, name, target string) error {
	dir, err := os.MkdirTemp(e.volume(""), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // absent after the rename
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	source, err := continuity.RootPath(root, target) // resolves symbolic links inside the image
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("the image has a file at %s, not a directory", target)
	default:
		if err := continuity.CopyDir(dir, source); err != nil {
			return err
		}
	}
	return os.Rename(dir, e.volume(name))
}

// checkPropagation returns an error if mounts below a directory cannot propagate, as
// Docker does: runc would accept the mount, and they would silently not appear.
func checkPropagation(source string, shared bool) error {
	source, err := filepath.EvalSymlinks(source)
	if err != nil {
		return err
	}
	at, err := host.Real().MountOf(source)
	if err != nil {
		return err
	}
	switch {
	case at.Point == "" || at.Shared:
		return nil
	case shared:
		return failure.Mark(failure.NotShared, fmt.Errorf("path %s is mounted on %s but it is not a shared mount", source, at.Point))
	case !at.Slave:
		return failure.Mark(failure.NotShared, fmt.Errorf("path %s is mounted on %s but it is not a shared or slave mount", source, at.Point))
	}
	return nil
}
