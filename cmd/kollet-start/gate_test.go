package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/test/needs"
)

// never is so long that a waiter that missed its wake-up is seen to hang.
const never = time.Hour

func within(t *testing.T, done <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute): // guards against a hang; passing takes microseconds
		t.Fatal(what)
	}
}

func waiting(dir string, tick time.Duration) <-chan struct{} {
	done := make(chan struct{})
	go func() { waitOpen(dir, tick); close(done) }()
	return done
}

// The gate opens at whatever moment of waitOpen chance picks.
func TestNoWakeUpIsLost(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gate")
	for i := range 5000 {
		check(t, gate.Make(dir))
		done := waiting(dir, never)
		for range i % 50 { // spread the moments
			unix.Getpid()
		}
		check(t, gate.Open(dir))
		within(t, done, "a wake-up was lost")
		check(t, os.Remove(filepath.Join(dir, gate.FileOpen)))
	}
}

func TestOpenGateDoesNotWait(t *testing.T) {
	dir := t.TempDir() // not even a FIFO
	check(t, os.WriteFile(filepath.Join(dir, gate.FileOpen), nil, 0o600))
	within(t, waiting(dir, never), "it waited")
}

func TestFIFOGone(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(dir string) error
	}{
		{"removed", func(dir string) error { return os.Remove(filepath.Join(dir, gate.FileFIFO)) }},
		{"replaced", func(dir string) error {
			if err := os.Remove(filepath.Join(dir, gate.FileFIFO)); err != nil {
				return err
			}
			return unix.Mkfifo(filepath.Join(dir, gate.FileFIFO), 0o600)
		}},
		{"replaced by a file", func(dir string) error {
			if err := os.Remove(filepath.Join(dir, gate.FileFIFO)); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, gate.FileFIFO), []byte("x"), 0o600)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "gate")
			check(t, gate.Make(dir))
			done := waiting(dir, time.Millisecond)
			check(t, tc.change(dir))
			check(t, os.WriteFile(filepath.Join(dir, gate.FileOpen), nil, 0o600))
			within(t, done, "it does not notice that the gate is open")
		})
	}
}

// The host's file system may turn read-only, as after an I/O error. Services are
// restarted nevertheless; none is staged.
func TestReadOnlyGate(t *testing.T) {
	needs.Root(t)
	dir := filepath.Join(t.TempDir(), "gate")
	check(t, gate.Make(dir))
	check(t, gate.Open(dir))
	var entered, declared error
	inOwnMounts(t, func(bind func(from, to string), _ func() mounts) {
		bind(dir, dir)
		if declared = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); declared != nil {
			return
		}
		if entered = enterGate(dir); entered == nil {
			waitOpen(dir, never)
		}
		declared = declareReady(dir)
	})
	if entered != nil {
		t.Errorf("an open gate: %v", entered)
	}
	if !errors.Is(declared, unix.EROFS) {
		t.Errorf("a container that is staged: %v", declared)
	}
}
