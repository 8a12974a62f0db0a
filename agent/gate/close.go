package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// closed is the prefix of directories beside a gate, with what was moved out of it.
const closed = ".closed-"

// Close makes a container wait at its gate when it is started again. It does nothing
// if the gate is closed, or was removed with its generation.
func Close(dir string) error {
	parent, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("close gate: %w", err)
	}
	defer parent.Close()
	if err := errors.Join(takeAway(dir), parent.Sync()); err != nil {
		return fmt.Errorf("close gate: %w", err)
	}
	return nil
}

// takeAway removes what marks a gate as open. The container may have put a directory there,
// and may fill it faster than it is emptied. So that is moved to where the container cannot
// follow, and Clean removes it.
func takeAway(dir string) error {
	open := filepath.Join(dir, FileOpen)
	err := os.Remove(open) // follows no link
	if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	away, err := os.MkdirTemp(filepath.Dir(dir), closed)
	if err != nil {
		return err
	}
	return os.Rename(open, filepath.Join(away, FileOpen))
}

// cleanTime is how long Clean may take. A container may have left more files than anyone
// waits for; they go with their generation at the latest.
const cleanTime = 30 * time.Second

// Clean removes what Close had to move out of a gate. Its container has stopped: a process
// with the moved directory open could fill it still.
func Clean(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	moved, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), closed+"*")) // the pattern is well-formed
	for _, away := range moved {
		if err := wary.RemoveAll(ctx, away); err != nil {
			return fmt.Errorf("close gate: %w", err)
		}
	}
	return nil
}
