package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	errThreaded = unix.EOPNOTSUPP
	errNoDevice = unix.ENODEV // the cgroup was removed while it was read
)

// group is where protected processes go, at the top of each hierarchy; under
// systemd it is a scope of that name.
const group = "kollet-guests"

// helpers are the programs that guests go on needing when their libvirt ends:
// virtlogd reads their consoles, the others serve their devices.
var helpers = []string{"virtlogd", "swtpm", "virtiofsd", "passt", "slirp4netns", "qemu-pr-helper", "vhost-user-gpu"}

// Helpers returns those of the processes that guests depend on.
func (c Container) Helpers(pids []int) []int {
	var found []int
	for _, pid := range pids {
		comm, err := os.ReadFile(filepath.Join(c.proc, strconv.Itoa(pid), "comm"))
		if err == nil && slices.Contains(helpers, strings.TrimSpace(string(comm))) {
			found = append(found, pid)
		}
	}
	return found
}

// Protect moves processes out of the container's cgroup, in the hierarchies
// where they still sit in it and in no other, so that limits which libvirt set
// elsewhere stay in force. Then it proves that none is left in it: with the
// host's pid namespace, the runtime ends a container by killing every process
// in its cgroup (runc: libcontainer/state_linux.go, destroy).
func (c Container) Protect(ctx context.Context, pids []int) error {
	for _, pid := range pids {
		names, err := c.Holds(pid)
		if err != nil {
			return fmt.Errorf("protect process %d: %w", pid, err)
		}
		for _, name := range names {
			if err := c.moveOut(ctx, pid, name); err != nil {
				return fmt.Errorf("protect process %d: move it out of %s in cgroup hierarchy %q: %w", pid, c.own[name], name, err)
			}
		}
	}
	return c.prove(pids)
}

// moveOut uses a scope where systemd owns the hierarchy, since it is the only
// one who may make groups there (systemd: docs/CGROUP_DELEGATION.md).
func (c Container) moveOut(ctx context.Context, pid int, name string) error {
	if _, err := os.Stat("/run/systemd/system"); err == nil && (name == "" || name == "name=systemd") {
		if err := scope(ctx, pid); err != nil {
			return err
		}
		names, err := c.Holds(pid)
		if err != nil || !slices.Contains(names, name) {
			return err
		}
		return errors.New("systemd did not move it")
	}
	return c.move(pid, name, group)
}

// scope asks systemd to put a process into a scope of its own in machine.slice.
func scope(ctx context.Context, pid int) error {
	conn, err := dbus.NewSystemConnectionContext(ctx)
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer conn.Close()
	done := make(chan string, 1)
	properties := []dbus.Property{
		dbus.PropPids(uint32(pid)),
		dbus.PropSlice("machine.slice"),
		dbus.PropDescription("guest process kept by kollet"),
		{Name: "CollectMode", Value: godbus.MakeVariant("inactive-or-failed")},
		{Name: "KillMode", Value: godbus.MakeVariant("none")},
	}
	unit := fmt.Sprintf("%s-%d.scope", group, pid)
	if _, err := conn.StartTransientUnitContext(ctx, unit, "replace", properties, done); err != nil {
		return fmt.Errorf("start %s: %w", unit, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("start %s: systemd says %s", unit, result)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// prove returns an error that names every process that the container's end
// would still kill.
func (c Container) prove(pids []int) error {
	var left []string
	for _, pid := range pids {
		names, err := c.Holds(pid)
		if err != nil {
			return fmt.Errorf("prove that process %d is safe: %w", pid, err)
		}
		if len(names) > 0 {
			left = append(left, fmt.Sprintf("%d (in %s)", pid, strings.Join(names, ", ")))
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("processes %s would die with their container", strings.Join(left, ", "))
	}
	return nil
}
