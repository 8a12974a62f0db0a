package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockFile takes a lock (flock(2)) against other processes and goroutines. The
// kernel releases it when the process dies.
func lockFile(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		select {
		case <-ctx.Done():
			file.Close()
			return nil, ctx.Err()
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// lockAll is held while a name is set, and while an image is used for a new
// container or removed.
func (e *Engine) lockAll(ctx context.Context) (unlock func(), err error) {
	return lockFile(ctx, filepath.Join(e.root, "lock"))
}

// dir is the directory of a container's log and related files.
func (e *Engine) dir(id string) string { return filepath.Join(e.root, "containers", id) }

// lockOf is a file outside of that directory, so that the lock can be held while
// the directory is removed.
func (e *Engine) lockOf(id string) string { return filepath.Join(e.root, "locks", id) }
