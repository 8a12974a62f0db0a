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

// makeVolumes makes the spec's named volumes that are absent, each with what
// the image has at its target: content, owners and modes. It returns those that
// it made. A volume appears complete or not at all.
func (e *Engine) makeVolumes(ctx context.Context, spec containers.Spec, rootfs []mount.Mount) (made []string, err error) {
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
			if err := e.makeVolume(root, name, target); err != nil {
				return fmt.Errorf("volume %s: %w", name, err)
			}
			made = append(made, name)
		}
		return nil
	})
	return made, err
}

func (e *Engine) makeVolume(root, name, target string) error {
	dir, err := os.MkdirTemp(e.volume(""), ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // where it was renamed it is no longer there
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	source, err := continuity.RootPath(root, target) // follows the image's links inside the image
	if err != nil {
		return err
	}
	info, err := os.Stat(source)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("the image has a file at %s, where a directory is needed", target)
	default:
		if err := continuity.CopyDir(dir, source); err != nil {
			return err
		}
	}
	return os.Rename(dir, e.volume(name))
}

// checkPropagation looks whether mounts below a directory can spread, as Docker
// does: runc would take the mount and they silently would not.
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
