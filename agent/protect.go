package agent

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/containers"
)

// protect makes sure that no guest dies when the group's containers end, or
// fails: then nothing has been stopped yet.
func (t *transaction) protect(ctx context.Context, g group) error {
	guests, err := t.Agent.guests()
	if err != nil {
		return err
	}
	t.guests = guests
	for _, m := range g {
		if m.old.Guests == nil {
			continue
		}
		if !m.protects() {
			t.note(m.name, "guests are not protected: guests.protect is false")
			continue
		}
		running, err := t.running(ctx, group{m})
		if err != nil {
			return err
		}
		for _, id := range running[m.name] {
			c, err := t.Engine.Inspect(ctx, id)
			if err != nil {
				return err
			}
			cgroup, err := guest.ContainerOf(proc, c.PID)
			if err != nil {
				return err
			}
			if err := t.protectContainer(ctx, cgroup, len(t.guests) > 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// protectContainer moves this node's guests, and what serves them, out of a
// container's cgroup. It looks at the container's own processes alone, so that
// it can be repeated while one ends.
func (a *Agent) protectContainer(ctx context.Context, c guest.Container, anyGuests bool) error {
	pids, err := c.Processes()
	if err != nil {
		return err
	}
	guests, err := a.finder().Among(pids)
	if err != nil {
		return err
	}
	var kept []int
	for _, g := range guests {
		kept = append(kept, g.PID)
	}
	if anyGuests || len(guests) > 0 {
		kept = append(kept, c.Helpers(pids)...)
	}
	return c.Protect(ctx, kept)
}

// Guest is a guest and what a stop of its libvirt would do to it.
type Guest struct {
	guest.Guest
	Image     string   `json:"image,omitempty"`     // that it runs from
	Container string   `json:"container,omitempty"` // that is kept for it
	Exposed   []string `json:"exposed,omitempty"`   // cgroup hierarchies in which it sits in that container; kollet moves it out before it stops the container
}

// Guests lists the node's guests.
func (a *Agent) Guests(ctx context.Context) ([]Guest, error) {
	found, err := a.guests()
	if err != nil {
		return nil, err
	}
	guests := []Guest{}
	for _, g := range found {
		shown := Guest{Guest: g}
		if made, err := a.store().Load(g.Generation); err == nil {
			if s, ok := made.Service(g.Service); ok {
				shown.Image = s.Ref
			}
		}
		c, err := a.container(ctx, g.Service, g.Generation)
		if err == nil {
			shown.Container = c.Spec.Name
			if shown.Exposed, err = exposed(c, g.PID); err != nil {
				return nil, err
			}
		}
		guests = append(guests, shown)
	}
	return guests, nil
}

func exposed(c containers.Container, pid int) ([]string, error) {
	if c.State != containers.StateRunning {
		return nil, nil
	}
	cgroup, err := guest.ContainerOf(proc, c.PID)
	if err != nil {
		return nil, err
	}
	names, err := cgroup.Holds(pid)
	slices.Sort(names)
	return names, err
}

// pins is what guests keep: the container that started each of them, whose root
// file system they run from, and with it its image and its generation's
// directory.
type pins map[string]bool

func (a *Agent) pins() (pins, error) {
	guests, err := a.guests()
	if err != nil {
		return nil, err
	}
	p := pins{}
	for _, g := range guests {
		p[pinKey(g.Service, g.Generation)] = true
		p[strconv.Itoa(g.Generation)] = true
	}
	return p, nil
}

func pinKey(service string, generation int) string { return fmt.Sprintf("%s %d", service, generation) }

func (p pins) generation(number int) bool { return p[strconv.Itoa(number)] }

func (p pins) container(c containers.Container) bool {
	return p[c.Spec.Labels[LabelService]+" "+c.Spec.Labels[LabelGeneration]]
}
