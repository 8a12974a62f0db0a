package guest

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/kollet/kollet/agent/host"
)

// group is the cgroup of protected processes, at the top of each hierarchy; under
// systemd it is the prefix of their scopes.
const group = "kollet-guests"

// Protect moves processes out of a container's cgroup in those hierarchies in
// which they are in it, so that limits which libvirt set elsewhere stay in force.
// Then it checks that none is left in it: with the host's pid namespace, the
// runtime ends a container by killing every process in its cgroup (runc:
// libcontainer/state_linux.go, destroy).
func (f Finder) Protect(ctx context.Context, cgroup host.Cgroup, pids []int) error {
	for _, pid := range pids {
		hierarchies, err := cgroup.Holds(pid)
		if err != nil {
			return fmt.Errorf("protect process %d: %w", pid, err)
		}
		for _, hierarchy := range hierarchies {
			if err := f.moveOut(ctx, cgroup, pid, hierarchy, group, fmt.Sprintf("%s-%d.scope", group, pid)); err != nil {
				return fmt.Errorf("protect process %d: move it out of %s in cgroup hierarchy %q: %w", pid, cgroup.Path(hierarchy), hierarchy, err)
			}
		}
	}
	return checkProtected(cgroup, pids)
}

// mostRounds is how often Evacuate looks for processes that were started meanwhile.
const mostRounds = 100

// Evacuate moves all processes out of a container's cgroup, in those hierarchies in
// which they are in it, and returns the cgroup in which its first process is then. What
// they start from then on is born outside of the container, so the runtime cannot kill
// it with the container. id is that of the container. It may be repeated; after an
// interruption Reunite comes before. If the first process has exited, nothing is moved, and
// the error is host.ErrExited, wrapped: the runtime is ending the container.
func (f Finder) Evacuate(ctx context.Context, cgroup host.Cgroup, id string, first int) (host.Cgroup, error) {
	to := group + "-" + id // the engine's name in it tells what it belongs to
	if _, err := f.evacuate(ctx, cgroup, to, first); err != nil {
		return cgroup, err
	}
	at, err := f.Host.CgroupOf(first) // before the others: what is moved must be found again
	if err != nil {
		return cgroup, err
	}
	return at, f.evacuateAll(ctx, cgroup, to)
}

// Reunite finishes an evacuation that was interrupted after it had moved the container's
// first process, in whose cgroup the others are looked for. cgroup is that cgroup.
func (f Finder) Reunite(ctx context.Context, cgroup host.Cgroup, id string) error {
	to := group + "-" + id
	if !slices.ContainsFunc(cgroup.Hierarchies(), func(hierarchy string) bool { return evacuated(cgroup, hierarchy, to) }) {
		return nil
	}
	rest, found, err := cgroup.Elsewhere(id)
	if err != nil || !found {
		return err
	}
	return f.evacuateAll(ctx, rest, to)
}

// Freezable reports whether kollet may freeze a cgroup: it made the cgroup, so that it is known
// who froze it. A container that its operator has paused stays frozen.
func Freezable(cgroup host.Cgroup, id string) bool {
	return !slices.ContainsFunc(cgroup.Hierarchies(), func(hierarchy string) bool { return !evacuated(cgroup, hierarchy, group+"-"+id) })
}

// Thaw lets what a kollet that was killed has frozen run again.
func (f Finder) Thaw() error { return f.Host.ThawAll(group + "-") }

// evacuated reports whether a cgroup is one to which an evacuation moves processes.
func evacuated(cgroup host.Cgroup, hierarchy, to string) bool {
	at := path.Base(cgroup.Path(hierarchy))
	return at == to || at == to+".scope"
}

// evacuateAll moves processes until none is left in a cgroup.
func (f Finder) evacuateAll(ctx context.Context, cgroup host.Cgroup, to string) error {
	for range mostRounds {
		pids, err := cgroup.Processes()
		if err != nil {
			return err
		}
		moved := 0
		for _, pid := range pids {
			n, err := f.evacuate(ctx, cgroup, to, pid)
			if err != nil {
				return err
			}
			moved += n
		}
		if moved == 0 {
			return nil
		}
	}
	return errors.New("its processes cannot be moved out of its cgroup: it starts others all the time")
}

// evacuate moves a process, and returns from how many hierarchies.
func (f Finder) evacuate(ctx context.Context, cgroup host.Cgroup, to string, pid int) (int, error) {
	hierarchies, err := cgroup.Holds(pid)
	if err != nil {
		return 0, err
	}
	moved := 0
	for _, hierarchy := range hierarchies {
		if evacuated(cgroup, hierarchy, to) {
			continue // by a kollet that was interrupted
		}
		if err := f.moveOut(ctx, cgroup, pid, hierarchy, to, to+".scope"); err != nil {
			return moved, fmt.Errorf("move process %d out of %s in cgroup hierarchy %q: %w", pid, cgroup.Path(hierarchy), hierarchy, err)
		}
		moved++
	}
	return moved, nil
}

// moveOut uses a scope in hierarchies that systemd owns.
func (f Finder) moveOut(ctx context.Context, cgroup host.Cgroup, pid int, hierarchy, to, unit string) error {
	if !f.Host.SystemdOwns(hierarchy) {
		return cgroup.Move(pid, hierarchy, to)
	}
	if err := scope(ctx, unit, pid); err != nil {
		return err
	}
	held, err := cgroup.Holds(pid)
	if err != nil || !slices.Contains(held, hierarchy) {
		return err
	}
	return errors.New("systemd did not move it")
}

// scope makes systemd move a process to a scope in machine.slice, which it creates if
// there is none with this name. systemd adds processes only to a unit with Delegate
// (bus_unit_method_attach_processes in systemd's src/core/dbus-unit.c).
func scope(ctx context.Context, unit string, pid int) error {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("connect to systemd: %w", err)
	}
	defer conn.Close()
	attach := conn.AttachProcessesToUnit(ctx, unit, "/", []uint32{uint32(pid)})
	if attach == nil {
		return nil
	}
	done := make(chan string, 1)
	properties := []dbus.Property{
		dbus.PropPids(uint32(pid)),
		dbus.PropSlice("machine.slice"),
		dbus.PropDescription("guest process kept by kollet"),
		{Name: "Delegate", Value: godbus.MakeVariant(true)},
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
		{Name: "KillMode", Value: godbus.MakeVariant("none")},
	}
	if _, err := conn.StartTransientUnitContext(ctx, unit, "replace", properties, done); err != nil {
		return fmt.Errorf("start %s: %w (it could not be added before: %w)", unit, err, attach)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("start %s: systemd reports %s", unit, result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// checkProtected returns an error that names every process that would be killed
// with the container.
func checkProtected(cgroup host.Cgroup, pids []int) error {
	var left []string
	for _, pid := range pids {
		hierarchies, err := cgroup.Holds(pid)
		if err != nil {
			return fmt.Errorf("check that process %d is protected: %w", pid, err)
		}
		if len(hierarchies) > 0 {
			left = append(left, fmt.Sprintf("%d (in %s)", pid, strings.Join(hierarchies, ", ")))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes %s would die with their container", strings.Join(left, ", "))
	}
	return nil
}
