package node

import (
	"errors"
	"fmt"
	"os"
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
