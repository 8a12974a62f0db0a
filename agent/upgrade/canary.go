package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/containers"
)

const (
	canaryInterval    = 100 * time.Millisecond // between two looks at the canary
	canaryStopTimeout = 30 * time.Second       // for the command that removes it
	sweepTimeout      = 10 * time.Second       // for all of that in a rollback, which must not wait for a libvirt that hangs
	canaryLines       = 20                     // of its output, in an error
)

// bootsCanary reports whether verify boots a canary with a service: one that was
// cut over.
func (t *transaction) bootsCanary(s generation.Service) bool {
	return s.Origin == t.to.Number && s.Guests != nil && s.Guests.Canary.Enabled
}

// canary is the guest that proves that a service can start guests.
type canary struct {
	t       *transaction
	service generation.Service
	id      string // of the container in which its commands run
}

// tryCanary boots a canary, watches it from outside, and removes it. Recovery
// removes the canary of an upgrade that was killed meanwhile.
func (t *transaction) tryCanary(ctx context.Context, s generation.Service) error {
	container, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	c := canary{t, s, container.ID}
	if err := c.remove(ctx); err != nil { // that of an earlier attempt
		return fmt.Errorf("%s: remove an old canary: %w", s.Name, err)
	}
	began := t.node.Host.Now()
	err = c.boot(ctx)
	output := ""
	if err != nil {
		output = c.tail(context.WithoutCancel(ctx))
	} else {
		t.node.Note(s.Name, "a canary booted in %s", t.since(began))
	}
	if gone := c.remove(context.WithoutCancel(ctx)); gone != nil {
		err = errors.Join(err, fmt.Errorf("remove it: %w", gone))
	}
	if err != nil {
		return fmt.Errorf("%s: the canary failed: %w%s", s.Name, err, output)
	}
	return nil
}

// boot returns nil when the canary has run: its process is there, libvirt lists
// it, and its firmware or kernel has printed what is expected.
func (c canary) boot(ctx context.Context) error {
	limit := c.service.Guests.Canary.Timeout
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if _, err := c.run(ctx, c.service.Guests.Canary.Start); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	first, err := c.process()
	if err != nil {
		return err
	}
	for {
		output, err := c.run(ctx, c.service.Guests.Canary.Output)
		if strings.Contains(output, c.service.Guests.Canary.Expect) {
			break
		}
		if now, gone := c.process(); gone != nil || !now.Same(first) {
			return fmt.Errorf("its process %d has exited", first.PID)
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return errors.Join(fmt.Errorf("its output had no %q within %v", c.service.Guests.Canary.Expect, limit), err)
			}
			return ctx.Err()
		case <-time.After(canaryInterval):
		}
	}
	if now, err := c.process(); err != nil || !now.Same(first) {
		return fmt.Errorf("its process %d has exited", first.PID)
	}
	listed, err := c.listed(ctx)
	if err == nil && !listed {
		err = fmt.Errorf("%s does not list it", c.service.Name)
	}
	return err
}

// process finds the canary that this container's libvirt started.
func (c canary) process() (guest.Guest, error) {
	all, err := c.t.node.GuestFinder().Canaries()
	if err != nil {
		return guest.Guest{}, err
	}
	for _, g := range all {
		if g.Service == c.service.Name && g.Generation == c.service.Origin {
			return g, nil
		}
	}
	return guest.Guest{}, errors.New("it has no process")
}

func (c canary) listed(ctx context.Context) (bool, error) {
	list, err := c.run(ctx, c.service.Guests.List)
	return slices.Contains(strings.Fields(list), guest.CanaryUUID), err
}

// remove removes the canary, if there is one. If its process outlives that, it is
// killed, and libvirt is asked again, to forget it.
func (c canary) remove(ctx context.Context) error {
	for range 2 {
		stopping, cancel := context.WithTimeout(ctx, canaryStopTimeout)
		defer cancel()
		if _, err := c.run(stopping, c.service.Guests.Canary.Stop); err != nil {
			return err
		}
		killed, err := c.t.killCanaries()
		if err != nil {
			return err
		}
		if !killed {
			break
		}
	}
	ctx, cancel := context.WithTimeout(ctx, canaryStopTimeout)
	defer cancel()
	listed, err := c.listed(ctx)
	if err == nil && listed {
		err = fmt.Errorf("%s still lists it", c.service.Name)
	}
	return err
}

// run runs one of the canary's commands and returns what it prints to its standard
// output.
func (c canary) run(ctx context.Context, argv []string) (string, error) {
	var stdout, stderr strings.Builder
	env := map[string]string{"KOLLET_CANARY_NAME": guest.CanaryName, "KOLLET_CANARY_UUID": guest.CanaryUUID}
	status, err := c.t.node.Engine.Exec(ctx, c.id, containers.Exec{Argv: argv, User: c.service.User, Env: env, Short: true, Stdout: &stdout, Stderr: &stderr})
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d: %s", status, printable.Reason(stderr.String()))
	}
	return stdout.String(), err
}

// tail is the end of the canary's output, for an error.
func (c canary) tail(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, canaryStopTimeout)
	defer cancel()
	output, _ := c.run(ctx, c.service.Guests.Canary.Output)
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	var text strings.Builder
	text.WriteString("; last lines of its output:")
	for _, line := range lines[max(0, len(lines)-canaryLines):] {
		text.WriteString("\n  | " + strings.TrimRight(line, "\r"))
	}
	return text.String()
}

// killCanaries kills the processes of canaries, and reports whether there were any.
func (t *transaction) killCanaries() (bool, error) {
	all, err := t.node.GuestFinder().Canaries()
	if err != nil {
		return false, err
	}
	for _, g := range all {
		p, err := host.Open(g.PID)
		if errors.Is(err, host.ErrExited) {
			continue
		}
		if err != nil {
			return true, err
		}
		defer p.Close()
		if start, err := t.node.Host.StartTime(g.PID); err != nil || start != g.Start {
			continue // the number belongs to another process now
		}
		if err := p.Signal(unix.SIGKILL); err != nil {
			return true, err
		}
		if ended, err := p.Exited(canaryStopTimeout); err != nil || !ended {
			return true, errors.Join(fmt.Errorf("the canary's process %d does not end", g.PID), err)
		}
	}
	return len(all) > 0, nil
}

// triedCanary reports whether there may be a canary of this transaction.
func (t *transaction) triedCanary() bool {
	return slices.ContainsFunc(t.started, func(s step) bool { return s.kind == journal.Verify }) && slices.ContainsFunc(t.to.Services, t.bootsCanary)
}

// sweepCanary removes the canary of a transaction that is undone, with the
// container of a generation, if it runs. What is left after the first sweep has no
// process any longer: revertCutover kills it while no libvirt runs.
func (t *transaction) sweepCanary(ctx context.Context, number int) {
	if !t.triedCanary() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	for _, s := range t.to.Services {
		origin := number
		if old, ok := t.from.Service(s.Name); ok && number == t.from.Number {
			origin = old.Origin
		}
		container, err := t.node.Container(ctx, s.Name, origin)
		if !t.bootsCanary(s) || err != nil || container.State != containers.StateRunning {
			continue
		}
		if err := (canary{t, s, container.ID}).remove(ctx); err != nil {
			t.node.Note(s.Name, "remove the canary: %v", err)
		}
	}
}
