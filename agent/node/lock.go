package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/wary"
)

// mostRead is more than a lock file ever has.
const mostRead = 1 << 20

// Lock keeps other kollet processes from changing this node until the returned
// function is called or this process exits: the lock belongs to open files
// (flock(2)). These are the lock file, which names the process, and the state directory, as
// the file may be removed. ErrLocked, wrapped, if another process has either.
func (n *Node) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(n.State(), 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", durable.Explain(err))
	}
	path := filepath.Join(n.State(), "lock")
	file, err := lock(path, os.O_RDWR|os.O_CREATE)
	if errors.Is(err, ErrLocked) {
		return nil, fmt.Errorf("%w (%s); wait for it to finish, then try again", err, holder(path))
	}
	if err != nil {
		return nil, err
	}
	dir, err := lock(n.State(), os.O_RDONLY)
	if errors.Is(err, ErrLocked) {
		err = fmt.Errorf("%w, and its lock file was removed (%s); wait for it to finish, then try again", err, askLocks)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	// The content is for the message above; the lock itself is the flock.
	if file.Truncate(0) == nil {
		_, _ = fmt.Fprintf(file, "kollet %s, process %d\n", n.Command, os.Getpid())
	}
	return func() { dir.Close(); file.Close() }, nil
}

// lock opens a file or a directory and takes its lock. ErrLocked if another process has it.
func lock(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", durable.Explain(err))
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, durable.Explain(err))
}

// Running returns the kollet command that holds the lock, such as "kollet upgrade,
// process 12", or "". It does not take the lock, so it is in nobody's way: the lock
// file names a process, which holds the lock if it has the file open.
func (n *Node) Running() string {
	path := filepath.Join(n.State(), "lock")
	lock, err := os.Stat(path)
	if err != nil {
		return ""
	}
	data, err := wary.ReadFile(path, mostRead)
	if err != nil {
		return ""
	}
	command := strings.TrimSpace(string(data))
	_, pid, _ := strings.Cut(command, ", process ")
	if _, err := strconv.Atoi(pid); err != nil {
		return ""
	}
	files, _ := filepath.Glob(filepath.Join(n.Host.Proc, pid, "fd/*"))
	for _, file := range files {
		if open, err := os.Stat(file); err == nil && os.SameFile(open, lock) {
			return command
		}
	}
	return ""
}

// askLocks says how to find a process that the lock file does not name.
const askLocks = "`lslocks` shows its process"

// holder says which process has the lock, as it wrote into the file.
func holder(path string) string {
	data, err := wary.ReadFile(path, mostRead)
	if command := strings.TrimSpace(string(data)); err == nil && command != "" {
		return command
	}
	return askLocks
}
