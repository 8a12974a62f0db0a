package channel

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// pair returns a client and the guest's end of its connection, served as a boot.
func pair(t *testing.T, boot string) (*Client, net.Conn) {
	t.Helper()
	outside, inside := net.Pipe()
	t.Cleanup(func() { outside.Close(); inside.Close() })
	go func() { _ = Serve(inside, boot) }()
	return NewClient(outside), inside
}

func TestRun(t *testing.T) {
	c, _ := pair(t, "b1")
	a, err := c.Do(t.Context(), Request{Argv: []string{"sh", "-c", "cat; echo two >&2; exit 3"}, Stdin: "one\n"})
	if err != nil || a.Status != 3 || a.Stdout != "one\n" || a.Stderr != "two\n" || a.Boot != "b1" {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := c.Do(t.Context(), Request{Argv: []string{"/no/such/program"}}); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A slow command does not delay others.
func TestConcurrentCommands(t *testing.T) {
	c, _ := pair(t, "b1")
	ctx, cancel := context.WithCancel(t.Context())
	slow := make(chan error, 1)
	go func() {
		_, err := c.Do(ctx, Request{Argv: []string{"sleep", "60"}})
		slow <- err
	}()
	if _, err := c.Do(t.Context(), Request{Argv: []string{"true"}}); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-slow; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A line that a power loss cut off is skipped.
func TestIncompleteLine(t *testing.T) {
	c, inside := pair(t, "b1")
	go func() { _, _ = inside.Write([]byte(`{"id":1,"bo`)) }()
	if boot, err := c.Await(t.Context(), ""); err != nil || boot != "b1" {
		t.Errorf("got %q, %v", boot, err)
	}
	inside.Close()
	if _, err := c.Await(t.Context(), ""); !errors.Is(err, ErrGone) {
		t.Errorf("got %v", err)
	}
}

func TestAwaitAnotherBoot(t *testing.T) {
	c, _ := pair(t, "b1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if boot, err := c.Await(ctx, "b1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %q, %v", boot, err)
	}
}
