package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrEnded is wrapped by Wait's error when the container's first process ended
// without saying why.
var ErrEnded = errors.New("ended before it was ready")

// pause is how long Wait sleeps between two looks at the gate directory.
const pause = 2 * time.Millisecond

// Make makes a container's gate directory, closed, with its FIFO: to be called
// before the container is created. It may be called again for a directory that
// it made: what an earlier container left there is dropped, but an open gate
// stays open.
func Make(dir string) error {
	// Only root may look inside: who can write here can start the service.
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make gate: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("make gate: %w", err)
	}
	fifo := filepath.Join(dir, FileFIFO)
	if err := unix.Mkfifo(fifo, 0o600); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make gate: fifo %s: %w", fifo, err)
	}
	for _, name := range []string{FileReady, FileFailed} {
		err := os.Remove(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("make gate: %w", err)
		}
	}
	return nil
}

// Wait returns nil when the container waits at its gate, or when the gate is
// open already. It fails when kollet-start reported a failure, with its line;
// when the process with id pid, the container's first, has ended; and when ctx
// is done. pid is counted in this process's pid namespace; 0 means that the
// engine says that the container does not run.
func Wait(ctx context.Context, dir string, pid int) error {
	process, err := follow(pid)
	if err != nil {
		return err
	}
	if process >= 0 {
		defer unix.Close(process)
	}
	for {
		// First whether it lives, then what it left behind: a container that
		// ends after its last word is not seen as ended without one.
		ended := process < 0 || readable(process, 0)
		if line, err := os.ReadFile(filepath.Join(dir, FileFailed)); err == nil {
			return errors.New(strings.TrimSpace(string(line)))
		}
		if ended {
			return fmt.Errorf("container (pid %d) %w: see its log", pid, ErrEnded)
		}
		if exists(filepath.Join(dir, FileReady)) || IsOpen(dir) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("wait for the container to be ready at its gate %s: %w", dir, err)
		}
		readable(process, pause)
	}
}

// Open lets the container go on, now and at every later start. It does not
// wait for stable storage, because the service is down meanwhile; Sync does.
// It may be called again.
func Open(dir string) error {
	fd, err := unix.Open(filepath.Join(dir, FileOpen), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("open gate %s: %w", dir, err)
	}
	unix.Close(fd)
	return wake(filepath.Join(dir, FileFIFO))
}

// wake writes one byte into the FIFO. Nobody reading it is no error: the
// container looks for the file that is there by now before it waits.
func wake(fifo string) error {
	fd, err := unix.Open(fifo, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENXIO): // no reader, fifo(7)
		return nil
	case err != nil:
		return fmt.Errorf("wake container: %s: %w", fifo, err)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte{1})
	if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EPIPE) { // full, or the reader has just gone
		return fmt.Errorf("wake container: %s: %w", fifo, err)
	}
	return nil
}

// Sync makes an open gate survive a power loss.
func Sync(dir string) error {
	for _, path := range []string{filepath.Join(dir, FileOpen), dir} {
		f, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("sync gate: %w", err)
		}
		err = errors.Join(f.Sync(), f.Close())
		if err != nil {
			return fmt.Errorf("sync gate: %w", err)
		}
	}
	return nil
}

// IsOpen tells whether the gate is open.
func IsOpen(dir string) bool { return exists(filepath.Join(dir, FileOpen)) }

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// follow returns a descriptor that is readable once the process has ended,
// pidfd_open(2), or -1 if it already has.
func follow(pid int) (int, error) {
	if pid <= 0 {
		return -1, nil
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return -1, nil
	case err != nil:
		return -1, fmt.Errorf("follow process %d: %w", pid, err)
	}
	return fd, nil
}

// readable sleeps until fd is readable, but not longer than limit.
func readable(fd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(limit.Milliseconds()))
	return err == nil && n > 0
}
