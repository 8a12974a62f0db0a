package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Client sends requests from outside the virtual machine.
type Client struct {
	w *writer

	mu      sync.Mutex
	last    int
	waiting map[int]chan Answer
	gone    chan struct{} // closed when the connection ends
}

// NewClient returns a client that uses a connection. The caller closes the connection.
func NewClient(port io.ReadWriter) *Client {
	c := &Client{w: &writer{to: port}, waiting: map[int]chan Answer{}, gone: make(chan struct{})}
	go func() {
		defer close(c.gone)
		_ = read(port, c.deliver) // ends when the virtual machine does
	}()
	return c
}

func (c *Client) deliver(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if to, ok := c.waiting[a.ID]; ok {
		delete(c.waiting, a.ID)
		to <- a
	}
}

// ErrGone means that the virtual machine is off.
var ErrGone = errors.New("the virtual machine is off")

// Do sends a request and waits for its answer. If the machine reboots, no answer comes,
// and Do waits until ctx is done.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	answer := make(chan Answer, 1)
	c.mu.Lock()
	c.last++
	r.ID = c.last
	c.waiting[r.ID] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.waiting, r.ID)
		c.mu.Unlock()
	}()
	if err := c.w.write(r); err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case a := <-answer:
		if a.Error != "" {
			return a, fmt.Errorf("%s: %s", strings.Join(r.Argv, " "), a.Error)
		}
		return a, nil
	case <-c.gone:
		return Answer{}, ErrGone
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("no answer to %q: %w", strings.Join(r.Argv, " "), ctx.Err())
	}
}

// Await waits until the machine answers from a boot other than notBoot, and returns the
// ID of that boot.
func (c *Client) Await(ctx context.Context, notBoot string) (string, error) {
	for {
		ping, cancel := context.WithTimeout(ctx, time.Second)
		a, err := c.Do(ping, Request{})
		cancel()
		switch {
		case err == nil && a.Boot != notBoot:
			return a.Boot, nil
		case errors.Is(err, ErrGone):
			return "", err
		case ctx.Err() != nil:
			return "", fmt.Errorf("the virtual machine does not answer: %w", ctx.Err())
		case err == nil:
			time.Sleep(time.Second) // the old boot is still shutting down
		}
	}
}
