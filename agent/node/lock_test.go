package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

// Running names the process that holds the lock. After that process ended, the file
// still names it.
func TestRunning(t *testing.T) {
	n := &Node{Root: t.TempDir(), Host: host.Real(), Command: "upgrade"}
	if got := n.Running(); got != "" {
		t.Errorf("without a lock file: %q", got)
	}
	unlock, err := n.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := n.Running(), fmt.Sprintf("kollet upgrade, process %d", os.Getpid()); got != want {
		t.Errorf("while it is locked: %q, want %q", got, want)
	}
	if _, err := n.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if got := n.Running(); got != "" {
		t.Errorf("after it was unlocked: %q", got)
	}
	for _, content := range []string{"", "kollet upgrade", "kollet upgrade, process ../1", "kollet upgrade, process 0"} {
		if err := os.WriteFile(n.Path("/var/lib/kollet/lock"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := n.Running(); got != "" {
			t.Errorf("lock file %q: %q", content, got)
		}
	}
}

// What keeps kollet from its lock is said with what to do about it.
func TestLockErrors(t *testing.T) {
	inTheWay := func(name string, put func(path string) error) func(n *Node) error {
		return func(n *Node) error {
			path := n.Path(name)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), put(path))
		}
	}
	file := func(path string) error { return os.WriteFile(path, nil, 0o600) }
	directory := func(path string) error { return os.Mkdir(path, 0o700) }
	held := func(content string) func(n *Node) error {
		return func(n *Node) error {
			unlock, err := n.Lock()
			t.Cleanup(unlock)
			return errors.Join(err, os.WriteFile(n.Path("/var/lib/kollet/lock"), []byte(content), 0o600))
		}
	}
	removed := func(n *Node) error {
		unlock, err := n.Lock()
		t.Cleanup(unlock)
		return errors.Join(err, os.Remove(n.Path("/var/lib/kollet/lock")))
	}
	for name, c := range map[string]struct {
		prepare func(n *Node) error
		want    string // after $, the path of the state directory
	}{
		"held":               {held("kollet upgrade, process 123\n"), "another kollet process holds the lock (kollet upgrade, process 123); wait for it to finish, then try again"},
		"held by whom?":      {held(""), "another kollet process holds the lock (`lslocks` shows its process); wait for it to finish, then try again"},
		"file removed":       {removed, "another kollet process holds the lock, and its lock file was removed (`lslocks` shows its process); wait for it to finish, then try again"},
		"a directory":        {inTheWay("/var/lib/kollet/lock", directory), "lock the node: open $/lock: is a directory; move away the directory that is in the place of a file"},
		"no state directory": {inTheWay("/var/lib/kollet", file), "create the state directory: mkdir $: not a directory; move away what is in the place of a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Root: t.TempDir(), Host: host.Real(), Command: "upgrade"}
			if err := c.prepare(n); err != nil {
				t.Fatal(err)
			}
			_, err := n.Lock()
			if want := strings.ReplaceAll(c.want, "$", n.State()); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// A lock file that nobody can read locks nevertheless, and nobody waits for its content.
func TestLockFIFO(t *testing.T) {
	n := &Node{Root: t.TempDir(), Host: host.Real(), Command: "upgrade"}
	if err := errors.Join(os.MkdirAll(n.State(), 0o700), unix.Mkfifo(n.Path("/var/lib/kollet/lock"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := n.Running(); got != "" {
		t.Errorf("got %q", got)
	}
	unlock, err := n.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := n.Lock(); !errors.Is(err, ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
}

// Each further process finds the node locked although the lock file was removed, also that of a
// process that was refused; and finds it free afterwards.
func TestLockFileRemoved(t *testing.T) {
	n := &Node{Root: t.TempDir(), Host: host.Real(), Command: "upgrade"}
	unlock, err := n.Lock()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := os.Remove(n.Path("/var/lib/kollet/lock")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := n.Lock(); !errors.Is(err, ErrLocked) {
				t.Errorf("locked twice: %v", err)
			}
		}
	}
	if got := n.Running(); got != "" {
		t.Errorf("running is %q, which does not run", got)
	}
	unlock()
	unlock, err = n.Lock()
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
