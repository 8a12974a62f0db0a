package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/durable"
)

const (
	// recordsReserve is the space for the records of a rollback. Those of failed steps
	// hold a log tail.
	recordsReserve = 256 << 10

	// engineReserve is the space for what a rollback has others write: the engine
	// stores the settings of each container that it starts.
	engineReserve = 16 << 20
)

// Reserve allocates what a rollback needs on disk, so that a disk that fills up after
// it can be rolled back on: space in the journal's file for the records that follow,
// and a file that Release removes. File systems that cannot allocate space ahead are
// left alone: a rollback does not depend on its records.
func (j *Journal) Reserve() error {
	j.reserved = true
	// The size stays: readers must not see blocks that were never written.
	err := unix.Fallocate(int(j.file.Fd()), unix.FALLOC_FL_KEEP_SIZE, j.whole, recordsReserve)
	if err == nil {
		err = allocate(reserve(j.dir), engineReserve)
	}
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		return fmt.Errorf("reserve %d MiB in %s for a rollback: %w", (recordsReserve+engineReserve)>>20, j.dir, durable.Explain(err))
	}
	return nil
}

// Release frees the space that Reserve keeps for others than the journal. It may be
// called again.
func (j *Journal) Release() error {
	err := unix.Unlink(reserve(j.dir))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EISDIR) { // Reserve refused a directory
		return nil
	}
	return fmt.Errorf("free the space that is reserved for a rollback: unlink %s: %w", reserve(j.dir), durable.Explain(err))
}

// reserve is the file that takes up space until a rollback needs it.
func reserve(dir string) string { return filepath.Join(dir, "reserve") }

// allocate creates a file of a size that takes up as much space.
func allocate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, size), f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
