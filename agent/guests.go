package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/fit"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// Guest is a guest and what a stop of its libvirt would do to it.
type Guest struct {
	guest.Guest
	Image     string   `json:"image,omitempty"`     // that it runs from
	Container string   `json:"container,omitempty"` // that is kept for it
	QEMU      string   `json:"qemu,omitempty"`      // version that it runs on, as its own program has it
	NextQEMU  string   `json:"next_qemu,omitempty"` // version that it would run on after a hard reboot, or a migration to such a node: that of the libvirt that runs
	Exposed   []string `json:"exposed,omitempty"`   // cgroup hierarchies in which it sits in the container of the libvirt that runs; kollet moves it out before it stops the container

	// Of the container of the libvirt that runs, and so the same for all guests of a service:
	Helpers []guest.Process `json:"helpers,omitempty"` // serve guests; kollet moves them out too
	Ending  []guest.Process `json:"ending,omitempty"`  // serve no guest; end with libvirt
}

// Guests lists the node's guests.
func (a *Agent) Guests(ctx context.Context) ([]Guest, error) {
	found, err := a.node.Guests()
	if err != nil {
		return nil, err
	}
	current, err := a.node.Current()
	if err != nil {
		return nil, err
	}
	guests := []Guest{}
	versions := qemuVersions{agent: a, known: map[string]string{}}
	sorted := map[string]guest.Sorted{} // by container
	for _, g := range found {
		shown := Guest{Guest: g, QEMU: versions.of(g)}
		if made, err := a.node.Store().Load(g.Generation); err == nil {
			if s, ok := made.Service(g.Service); ok {
				shown.Image = s.Ref
			}
		}
		if c, err := a.node.Container(ctx, g.Service, g.Generation); err == nil {
			shown.Container = c.Spec.Name
		}
		// The libvirt that runs may be a later one than the guest's own.
		if s, ok := current.Service(g.Service); ok {
			if c, err := a.node.Container(ctx, s.Name, s.Origin); err == nil {
				if shown.Exposed, err = a.exposed(c, g.PID); err != nil {
					return nil, err
				}
				if _, known := sorted[c.ID]; !known {
					if sorted[c.ID], err = a.sorted(c, s.Command); err != nil {
						return nil, err
					}
				}
				shown.Helpers, shown.Ending = sorted[c.ID].Helpers, sorted[c.ID].Ending
				shown.NextQEMU = versions.next(ctx, s, c, g)
			}
		}
		guests = append(guests, shown)
	}
	return guests, nil
}

func (a *Agent) exposed(c containers.Container, pid int) ([]string, error) {
	cgroup, err := a.node.Host.ContainerCgroup(c.PID, c.ID)
	if errors.Is(err, host.ErrExited) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	held, err := cgroup.Holds(pid)
	return hierarchyNames(held), err
}

// hierarchyNames names hierarchies for people. That of version 2 has no name in /proc
// (cgroups(7)); beside those of version 1 it is mounted at /sys/fs/cgroup/unified.
func hierarchyNames(hierarchies []string) []string {
	var names []string
	for _, h := range hierarchies {
		names = append(names, cmp.Or(h, "unified"))
	}
	return names
}

// sorted tells the helpers of guests from the other processes of a container, which runs a
// command, if that is known.
func (a *Agent) sorted(c containers.Container, command []string) (guest.Sorted, error) {
	cgroup, err := a.node.Host.ContainerCgroup(c.PID, c.ID)
	var sorter *guest.Sorter
	if err == nil {
		sorter, err = a.node.GuestFinder().Sorter(cgroup, c.PID, command)
	}
	if errors.Is(err, host.ErrExited) {
		return guest.Sorted{}, nil
	}
	if err != nil {
		return guest.Sorted{}, err
	}
	pids, err := cgroup.Processes()
	if err != nil {
		return guest.Sorted{}, err
	}
	return sorter.Sort(pids)
}

// qemuTimeout bounds how long a QEMU may take to print its version.
const qemuTimeout = 10 * time.Second

// qemuVersions finds versions of QEMU. Many guests run from few programs.
type qemuVersions struct {
	agent *Agent
	known map[string]string
}

// of returns the version that a guest runs on, or "". It is read from the program
// of the guest's process, which is still there after its container was stopped and
// its image removed.
func (v qemuVersions) of(g guest.Guest) string {
	program, err := os.Open(v.agent.node.Host.ProcessPath(g.PID, "exe"))
	if err != nil {
		return ""
	}
	defer program.Close()
	var file unix.Stat_t
	if err := unix.Fstat(int(program.Fd()), &file); err != nil {
		return ""
	}
	return v.once(fmt.Sprintf("file %d %d", file.Dev, file.Ino), func() (string, error) { return fit.QEMUVersion(program) })
}

// next returns the version of the QEMU that a libvirt's container has at the path of
// the guest's, or "".
func (v qemuVersions) next(ctx context.Context, s generation.Service, c containers.Container, g guest.Guest) string {
	args, err := v.agent.node.Host.CommandLine(g.PID)
	if err != nil || len(args) == 0 || c.State != containers.StateRunning {
		return ""
	}
	return v.once(s.Name+" "+args[0], func() (string, error) {
		ctx, cancel := context.WithTimeout(ctx, qemuTimeout)
		defer cancel()
		program, err := v.agent.node.Host.RootsProgram(c.PID, args[0])
		if err != nil {
			return "", err
		}
		var out strings.Builder
		_, err = v.agent.node.Engine.Exec(ctx, c.ID, containers.Exec{Argv: []string{program, "--version"}, User: s.User, Short: true, Stdout: &out})
		if err != nil {
			return "", err
		}
		return fit.QEMUVersion(strings.NewReader(out.String()))
	})
}

func (v qemuVersions) once(key string, find func() (string, error)) string {
	version, ok := v.known[key]
	if !ok {
		version, _ = find() // not known is as good as any answer
		v.known[key] = version
	}
	return version
}
