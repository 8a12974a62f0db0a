package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/printable"
	"github.com/kollet/kollet/containers"
)

// protectGuests makes sure that no guest dies when the group's containers stop. If
// it cannot, it fails, and nothing has been stopped yet.
func (t *transaction) protectGuests(ctx context.Context, g group) error {
	guests, err := t.node.Guests()
	if err != nil {
		return err
	}
	t.guests = guests
	if err := t.guestsFit(ctx); err != nil { // guests that came since the stage step
		return err
	}
	for _, m := range g {
		if m.old.Guests == nil && !m.hosts {
			continue
		}
		if !m.protects() {
			t.node.Note(m.name, "guests are not protected: guests.protect is false")
			continue
		}
		running, err := t.running(ctx, group{m})
		if err != nil {
			return err
		}
		for _, id := range running[m.name] {
			c, err := t.node.Engine.Inspect(ctx, id)
			if errors.Is(err, containers.ErrNotFound) {
				continue // it was removed meanwhile
			}
			if err != nil {
				return err
			}
			_, ending, err := protectInside(ctx, t.node, c, m.running())
			if err == nil {
				err = t.warnOfEnding(m.name, ending)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// protectInside moves guests and their helpers out of a container that runs or is paused.
// It returns what will end with the container although guests run. A container that
// exited by itself has none left, and no sorter.
func protectInside(ctx context.Context, n *node.Node, c containers.Container, s generation.Service) (*guest.Sorter, []guest.Process, error) {
	cgroup, err := n.Host.ContainerCgroup(c.PID, c.ID)
	if err == nil {
		err = n.GuestFinder().Reunite(ctx, cgroup, c.ID)
	}
	var sorter *guest.Sorter
	if err == nil {
		sorter, err = n.GuestFinder().Sorter(cgroup, c.PID, s.Command)
	}
	if errors.Is(err, host.ErrExited) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	ending, err := protectContainer(ctx, n, cgroup, sorter)
	return sorter, ending, err
}

// warnOfEnding names processes of a service that are about to end with it, once.
func (t *transaction) warnOfEnding(service string, ending []guest.Process) error {
	ending = slices.DeleteFunc(ending, func(p guest.Process) bool { return slices.Contains(t.named, p) })
	if len(ending) == 0 {
		return nil
	}
	t.named = append(t.named, ending...)
	return t.warn(service, "%s", endingText(ending))
}

func endingText(ending []guest.Process) string {
	var names []string
	for _, p := range ending {
		names = append(names, p.String())
	}
	return "these processes serve no guest and end with it: " + strings.Join(names, ", ")
}

// libvirtTimeout is how long a libvirt may take after its start to find the
// guests that an earlier one started.
const libvirtTimeout = 30 * time.Second

// findGuests waits until the new libvirt answers, then checks that every guest of the
// group that ran before is the same process, and that libvirt lists it. It does so once,
// before the next service is cut over: no libvirt has taken requests since the
// cut over, so nobody can have asked for a guest to be stopped.
func (t *transaction) findGuests(ctx context.Context, g group) error {
	for _, m := range g {
		if err := t.watch.wait(ctx, m.name); err != nil {
			return explain(ctx, t.node, err)
		}
	}
	if len(t.guests) == 0 {
		return nil
	}
	now, err := t.node.Guests()
	if err != nil {
		return err
	}
	for _, before := range t.guests {
		if t.concerns(g, before) && !slices.ContainsFunc(now, before.Same) {
			return fmt.Errorf("guest %s (process %d) has exited", before.Name, before.PID)
		}
	}
	for _, m := range g {
		if m.new.Guests == nil {
			continue
		}
		if err := t.libvirtKnows(ctx, m.new); err != nil {
			return err
		}
	}
	return nil
}

// concerns reports whether the cutover of a group may have ended a guest: one of its services,
// or of one that was renamed or removed. What ends in the container of another service ends by itself.
func (t *transaction) concerns(g group, before guest.Guest) bool {
	_, stays := t.to.Service(before.Service)
	return !stays || slices.Contains(g.names(), before.Service)
}

func (t *transaction) libvirtKnows(ctx context.Context, s generation.Service) error {
	ctx, cancel := context.WithTimeout(ctx, libvirtTimeout)
	defer cancel()
	c, err := t.node.Container(ctx, s.Name, s.Origin)
	if err != nil {
		return err
	}
	for {
		unknown, err := t.unknownGuests(ctx, s, c.ID)
		if err == nil && len(unknown) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("ask %s for its guests: %w", s.Name, err)
			}
			return fmt.Errorf("%s does not know guest %s", s.Name, strings.Join(unknown, ", "))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (t *transaction) unknownGuests(ctx context.Context, s generation.Service, id string) ([]string, error) {
	var out strings.Builder
	status, err := t.node.Engine.Exec(ctx, id, containers.Exec{Argv: s.Guests.List, User: s.User, Short: true, Stdout: &out, Stderr: &out})
	if err != nil {
		return nil, err
	}
	if status != 0 {
		return nil, fmt.Errorf("%q: exit status %d: %s", strings.Join(s.Guests.List, " "), status, printable.Reason(out.String()))
	}
	known := strings.Fields(out.String())
	var unknown []string
	for _, g := range t.guests {
		if t.takesOver(s, g) && !slices.Contains(known, g.UUID) {
			unknown = append(unknown, g.Name)
		}
	}
	return unknown, nil
}

// takesOver reports whether a service has to know a guest: its own, and those of a
// service that has been renamed or removed.
func (t *transaction) takesOver(s generation.Service, g guest.Guest) bool {
	_, stays := t.to.Service(g.Service)
	return g.Service == s.Name || !stays
}

// protectContainer moves this node's guests and their helpers out of a container's
// cgroup, and returns what is left in it beside the service, if guests run. It looks at
// the container's own processes only, which makes it cheap enough to repeat while the
// container stops.
func protectContainer(ctx context.Context, n *node.Node, c host.Cgroup, sorter *guest.Sorter) ([]guest.Process, error) {
	pids, err := c.Processes()
	if err != nil {
		return nil, err
	}
	sorted, err := sorter.Sort(pids)
	if err != nil {
		return nil, err
	}
	return sorted.Ending, n.GuestFinder().Protect(ctx, c, sorted.Kept())
}
