// Package durable writes files that survive a power loss: afterwards, a file has
// either its new or its old content. All of kollet's state is written with it.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// WriteFile replaces the content of path with data and sets its mode. Until it
// returns, a power loss may bring back the old content.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// replace is like renameio.WriteFile, which keeps the mode of an existing file.
func replace(path string, data []byte, mode fs.FileMode) error {
	// Without a directory it may write to that of TMPDIR first, where secrets would stay
	// if kollet is killed.
	f, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // does nothing once the file is replaced
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Symlink makes path a symbolic link to target and replaces what path was.
func Symlink(target, path string) error {
	if err := renameio.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in dir survive a power loss: fsync(2) of a file does not
// include its directory entry.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// SyncFS flushes the file system that holds path (syncfs(2)). For many small
// files, this is faster than an fsync of each.
func SyncFS(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return fmt.Errorf("flush the file system of %s: %w", path, err)
	}
	return nil
}
