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
// function is called or this process exits: the lock belongs to the open file
// (flock(2)). ErrLocked, wrapped, if another process has it.
func (n *Node) Lock() (unlock func(), err error) {
	if err := os.MkdirAll(n.State(), 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", durable.Explain(err))
	}
	path := filepath.Join(n.State(), "lock")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the node: %w", durable.Explain(err))
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, fmt.Errorf("%w (%s); wait for it to finish, then try again", ErrLocked, holder(path))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, durable.Explain(err))
	}
	// The content is for the message above; the lock itself is the flock.
	if f.Truncate(0) == nil {
		_, _ = fmt.Fprintf(f, "kollet %s, process %d\n", n.Command, os.Getpid())
	}
	return func() { f.Close() }, nil
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

// holder says which process has the lock, as it wrote into the file.
func holder(path string) string {
	data, err := wary.ReadFile(path, mostRead)
	if command := strings.TrimSpace(string(data)); err == nil && command != "" {
		return command
	}
	return "`lslocks` shows its process"
}
