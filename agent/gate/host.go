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

	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/agent/wary"
)

// ErrExited is wrapped by Wait's error when the container's first process exited
// without reporting a reason.
var ErrExited = errors.New("container exited before it was ready")

// pollInterval is how long Wait waits between two reads of the gate directory.
const pollInterval = 2 * time.Millisecond

// longestReason is how much is read of what kollet-start reports, in bytes.
const longestReason = 4 << 10

// Process is the first process of a container; *host.Process is one. This
// package does not import host, because kollet-start imports this package and
// has to stay small.
type Process interface {
	// Exited waits for the process to end, for as long as within, and reports
	// whether it has.
	Exited(within time.Duration) (bool, error)
}

// Make creates a container's gate directory, closed, with its FIFO. It is called
// before the container is created. It may be called again for the same
// directory: it removes the files of an earlier container, but an open gate stays
// open.
func Make(dir string) error {
	// Only root has access: write access is enough to start the service.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create gate: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("create gate: %w", err)
	}
	fifo := filepath.Join(dir, FileFIFO)
	if err := unix.Mkfifo(fifo, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create gate: fifo %s: %w", fifo, err)
	}
	for _, name := range []string{FileReady, FileFailed} {
		err := os.Remove(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("create gate: %w", err)
		}
	}
	return nil
}

// Wait returns nil when the container waits at its gate. It fails with kollet-start's
// message if kollet-start reported a failure, with ErrExited if the container's first
// process has exited, if its gate is open already, and with the context's error.
func Wait(ctx context.Context, dir string, first Process) error {
	wait := time.Duration(0)
	for {
		// The process first, then its files: a container that reports a failure
		// and exits is not taken for one that exited without a reason.
		exited, err := first.Exited(wait)
		if err != nil {
			return err
		}
		line, err := wary.Read(unix.AT_FDCWD, filepath.Join(dir, FileFailed), longestReason)
		if err == nil {
			return errors.New(printable.Reason(string(line)))
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return broken(dir, err)
		}
		if exited {
			return fmt.Errorf("%w: see its log", ErrExited)
		}
		if exists(filepath.Join(dir, FileReady)) || IsOpen(dir) {
			return intact(dir)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for the container to be ready at its gate %s: %w", dir, err)
		}
		wait = pollInterval
	}
}

// intact checks that what a gate directory has is what kollet and kollet-start
// created. The container can write to it, so this finds early, while the service's
// old task still runs, what Open would refuse.
func intact(dir string) error {
	for _, file := range []struct {
		name     string
		kind     uint32
		optional bool
	}{{FileFIFO, unix.S_IFIFO, false}, {FileReady, unix.S_IFREG, true}, {FileOpen, unix.S_IFREG, true}} {
		err := wary.Check(filepath.Join(dir, file.name), file.kind)
		if err != nil && !(file.optional && errors.Is(err, fs.ErrNotExist)) {
			return broken(dir, err)
		}
	}
	return RequireClosed(dir)
}

// RequireClosed fails if a gate is open that kollet has not opened: then the service may
// run beside the one that it is to replace.
func RequireClosed(dir string) error {
	if IsOpen(dir) {
		return tampered(fmt.Errorf("%s exists, and kollet did not create it", filepath.Join(dir, FileOpen)))
	}
	return nil
}

// broken explains an error about a file in a gate directory. Only if the file is missing or is
// something else, the container may have done it: kollet and kollet-start did not.
func broken(dir string, err error) error {
	_, kind := errors.AsType[*wary.KindError](err)
	switch missing := errors.Is(err, fs.ErrNotExist); {
	case missing && !exists(dir):
		return fmt.Errorf("the gate was removed with its directory: %w", err)
	case missing || kind:
		return tampered(err)
	}
	return fmt.Errorf("look at the gate: %w", err)
}

func tampered(err error) error {
	return fmt.Errorf("the container changed its gate: %w; do not trust its image", err)
}

// Open lets the container continue, now and at every later start. It does not
// wait for stable storage, because the service is down meanwhile; Sync does. It
// may be called again.
func Open(dir string) error {
	path := filepath.Join(dir, FileOpen)
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600) // O_EXCL follows no link
	if errors.Is(err, unix.EEXIST) {
		if err := wary.Check(path, unix.S_IFREG); err != nil {
			return broken(dir, err)
		}
	} else if err != nil {
		return fmt.Errorf("open gate %s: %w", dir, err)
	} else {
		unix.Close(fd)
	}
	return wake(dir)
}

// Restore opens a gate again whose files were lost after kollet had opened it: the container
// would wait at it when it is started again.
func Restore(dir string) error {
	if IsOpen(dir) {
		return nil
	}
	if err := Make(dir); err != nil {
		return err
	}
	if err := Open(dir); err != nil {
		return err
	}
	return Sync(dir)
}

// wake writes one byte to the FIFO. It is not an error if nothing reads it: the
// container checks for the open file before it waits.
func wake(dir string) error {
	fifo := filepath.Join(dir, FileFIFO)
	f, err := wary.Open(unix.AT_FDCWD, fifo, unix.O_WRONLY, unix.S_IFIFO)
	switch {
	case errors.Is(err, unix.ENXIO): // no reader, fifo(7)
		return nil
	case err != nil:
		return broken(dir, err)
	}
	defer f.Close()
	_, err = unix.Write(int(f.Fd()), []byte{1})
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EPIPE) { // full, or the reader has just closed it
		return fmt.Errorf("wake container: %s: %w", fifo, err)
	}
	return nil
}

// Sync makes an open gate durable: it survives a power loss.
func Sync(dir string) error {
	file, err := wary.Open(unix.AT_FDCWD, filepath.Join(dir, FileOpen), unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return broken(dir, err)
	}
	defer file.Close()
	parent, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync gate: %w", err)
	}
	defer parent.Close()
	if err := errors.Join(file.Sync(), parent.Sync()); err != nil {
		return fmt.Errorf("sync gate: %w", err)
	}
	return nil
}

// IsOpen reports whether the gate is open.
func IsOpen(dir string) bool { return exists(filepath.Join(dir, FileOpen)) }

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}
