// Package health probes services with a command in the container, a connection or
// an HTTP request.
package health

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/containers"
)

// Execer runs commands in containers. Engines implement it.
type Execer interface {
	Exec(ctx context.Context, id string, cmd containers.Exec) (int, error)
}

// Target is the container that is probed.
type Target struct {
	Engine Execer
	Host   host.Host
	ID     string            // of the container
	PID    int               // of its first process, to reach sockets in its file system
	User   string            // that probe commands run as
	Env    map[string]string // more environment of these commands
}

// Of returns a container as a target.
func Of(engine Execer, h host.Host, c containers.Container, user string) Target {
	return Target{Engine: engine, Host: h, ID: c.ID, PID: c.PID, User: user}
}

// alive returns an error if the service was killed, whatever its probes say: the kernel
// keeps the sockets of a process that hangs in it.
func (t Target) alive() error {
	if t.PID < 1 {
		return nil
	}
	return t.Host.Killed(t.PID)
}

// Try runs every probe once, concurrently, and returns the first error.
func Try(ctx context.Context, t Target, probes []nodefile.Probe) error {
	if err := t.alive(); err != nil {
		return err
	}
	var g errgroup.Group
	for _, p := range probes {
		g.Go(func() error { return try(ctx, t, p) })
	}
	return g.Wait()
}

// Ready waits until each probe has passed once, within its start period.
func Ready(ctx context.Context, t Target, probes []nodefile.Probe) error {
	if err := t.alive(); err != nil {
		return err
	}
	return each(ctx, probes, func(ctx context.Context, p nodefile.Probe) error {
		return passOnce(ctx, t, p, "not healthy")
	})
}

// Answers waits until a probe of what a service requires has passed once, within the
// probe's start period.
func Answers(ctx context.Context, t Target, p nodefile.Probe) error {
	return passOnce(ctx, t, p, "no success")
}

// Stable checks that each probe keeps passing for its stable time.
func Stable(ctx context.Context, t Target, probes []nodefile.Probe) error {
	if err := t.alive(); err != nil {
		return err
	}
	return each(ctx, probes, func(ctx context.Context, p nodefile.Probe) error {
		until := time.Now().Add(p.Stable)
		for {
			if err := try(ctx, t, p); err != nil {
				return fmt.Errorf("became unhealthy: %w", err)
			}
			rest := time.Until(until)
			if rest <= 0 {
				return nil
			}
			if err := pause(ctx, min(rest, p.Interval)); err != nil {
				return err
			}
		}
	})
}

func each(ctx context.Context, probes []nodefile.Probe, do func(context.Context, nodefile.Probe) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range probes {
		g.Go(func() error { return do(ctx, p) })
	}
	return g.Wait()
}

// firstRetry is the pause before the first retry of a probe. It doubles up to the
// probe's interval: services usually start in much less than that.
const firstRetry = 10 * time.Millisecond

// passOnce waits until a probe has passed once, within its start period. late says
// what it means if it has not.
func passOnce(ctx context.Context, t Target, p nodefile.Probe, late string) error {
	end := time.Now().Add(p.StartPeriod)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	wait := firstRetry
	last := errors.New("no probe completed")
	for {
		err := try(ctx, t, p)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil && time.Now().Before(end) {
			last = err // not caused by the deadline, at which connections fail before ctx is done
		}
		wait = min(wait, p.Interval)
		if pause(ctx, wait) != nil {
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("%s within %v: %w", late, p.StartPeriod, last)
			}
			return ctx.Err()
		}
		wait *= 2
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func try(ctx context.Context, t Target, p nodefile.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	switch {
	case p.TCP != "":
		return dial(ctx, "tcp", p.TCP, p.TCP)
	case p.Unix != "":
		// Resolve links in the container's file system, not the host's.
		socket, err := t.Host.PathInside(t.PID, p.Unix)
		if err != nil {
			return fmt.Errorf("probe unix %s: %w", p.Unix, err)
		}
		return dial(ctx, "unix", socket, p.Unix)
	case p.HTTP != "":
		return get(ctx, t, p)
	case p.AMQP != "":
		if err := greet(ctx, t, p); err != nil {
			return fmt.Errorf("probe %s: %w", p.AMQP, err)
		}
		return nil
	case p.OVSDB != "":
		if err := askDatabase(ctx, p.OVSDB); err != nil {
			return fmt.Errorf("probe ovsdb %s: %w", p.OVSDB, err)
		}
		return nil
	default:
		return execute(ctx, t, p)
	}
}

func dial(ctx context.Context, network, address, shown string) error {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return fmt.Errorf("probe %s %s: %w", network, shown, err)
	}
	return conn.Close()
}

func execute(ctx context.Context, t Target, p nodefile.Probe) error {
	_, shown := p.Address()
	var out bytes.Buffer
	status, err := t.Engine.Exec(ctx, t.ID, containers.Exec{Argv: p.Exec, User: t.User, Env: t.Env, Short: true, Stdout: &out, Stderr: &out})
	if err != nil {
		return fmt.Errorf("probe %q: %w", shown, err)
	}
	if status != 0 {
		return fmt.Errorf("probe %q: exit status %d%s", shown, status, lastLine(out.String()))
	}
	return nil
}

// lastLine returns the last line of a failed command's output, usually its error.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := printable.Reason(lines[len(lines)-1]); last != "" {
		return ": " + last
	}
	return ""
}
