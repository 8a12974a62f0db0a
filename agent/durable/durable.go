// Package durable writes files so that they survive a power loss whole or not
// at all. Everything that kollet keeps is written by it.
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

// WriteFile writes data to path: after it returns, path holds all of it on
// stable storage, with exactly this mode; before, whatever it held earlier.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// replace is renameio.WriteFile, which keeps the mode of a file that exists.
func replace(path string, data []byte, mode fs.FileMode) error {
	f, err := renameio.NewPendingFile(path, renameio.WithStaticPermissions(mode))
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }() // nothing is left to clean up once it is replaced
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// Symlink makes path a link to target, replacing what was there.
func Symlink(target, path string) error {
	if err := renameio.Symlink(target, path); err != nil {
		return fmt.Errorf("link %s: %w", path, err)
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir makes the names in dir survive a power loss: fsync(2) of a file says
// nothing of its directory entry.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// SyncFS flushes the whole file system that holds path, which for a new tree of
// small files is cheaper than an fsync for each (syncfs(2)).
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
