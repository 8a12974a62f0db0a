package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// checkHosts finds the services of which containers run that may have started guests. It refuses
// to continue if what looks like a guest runs in one of them, but was started with another state
// directory than this: nobody would know later that it needs its container.
func (t *transaction) checkHosts(all []containers.Container) error {
	may := t.node.Hosts()
	for _, c := range all {
		service := c.Spec.Labels[node.LabelService]
		if c.State.Stopped() || !may(node.GenerationOf(c), service) {
			continue
		}
		t.hosts[service] = true
		if err := t.checkInside(c); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	return nil
}

// checkManual refuses to replace a container with guests that was created manually under a
// service's name. all are the node's own.
func (t *transaction) checkManual(ctx context.Context, all []containers.Container) error {
	for _, s := range t.from.Services {
		if slices.ContainsFunc(all, func(c containers.Container) bool { return c.Spec.Name == s.Name }) {
			continue
		}
		if _, err := t.running(ctx, group{{name: s.Name}}); err != nil {
			return fmt.Errorf("check: %w", err)
		}
	}
	return nil
}

// checkInside refuses to stop a container in which strangers run.
func (t *transaction) checkInside(c containers.Container) error {
	strangers, err := t.strangers(c)
	if err != nil || len(strangers) == 0 {
		return err
	}
	g := strangers[0]
	return fmt.Errorf("guest %s (process %d) runs in container %s, but was not started with %s: if that directory was moved, move it back; otherwise migrate the guest or shut it down",
		g.Name, g.PID, c.Spec.Name, t.node.State())
}

// strangers returns what looks like guests in a container and was not started with this state
// directory, or not in a container of kollet's.
func (t *transaction) strangers(c containers.Container) ([]guest.Guest, error) {
	inside, err := t.inside(c)
	if err != nil {
		return nil, fmt.Errorf("find guests in container %s: %w", c.Spec.Name, err)
	}
	ours := c.Spec.Labels[node.LabelNode] == t.node.State()
	return slices.DeleteFunc(inside, func(g guest.Guest) bool { return ours && g.Known() }), nil
}

// inside returns what looks like guests in a container.
func (t *transaction) inside(c containers.Container) ([]guest.Guest, error) {
	if c.PID == 0 {
		return nil, nil
	}
	cgroup, err := t.node.Host.ContainerCgroup(c.PID, c.ID)
	if errors.Is(err, host.ErrExited) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pids, err := cgroup.Processes()
	if err != nil {
		return nil, err
	}
	return t.node.GuestFinder().Inside(pids)
}

// checkLost refuses to replace containers that run although their generation is gone, or a file of
// it that they need: the state directory was lost, damaged, or restored from an older copy. What
// they mount went with it, so once they are stopped, nothing can start them again.
func (t *transaction) checkLost(all []containers.Container) error {
	var lost []string
	for _, c := range all {
		number := node.GenerationOf(c)
		if number == 0 || c.State.Stopped() {
			continue
		}
		name := fmt.Sprintf("%s of generation %d", c.Spec.Name, number)
		_, err := os.Stat(t.node.Store().Path(number))
		if errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, name)
		} else if err != nil {
			return err
		} else if path := t.lostFile(c); path != "" {
			lost = append(lost, fmt.Sprintf("%s (%s)", name, path))
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return t.refuse(fmt.Errorf("check: there is no way back from this: running, but with files that are gone from %s, are %s; restore the latest state of that directory if there is a copy", t.node.Generations(), strings.Join(lost, ", ")))
}

// lostFile returns the first file without which a container of the old generation cannot be
// started again; empty if it has all.
func (t *transaction) lostFile(c containers.Container) string {
	if !belongs(t.from, c) {
		return ""
	}
	for _, d := range t.plan.Drift {
		if !d.Lost || d.Service != c.Spec.Labels[node.LabelService] {
			continue
		}
		if rel, err := filepath.Rel(t.node.Generations(), d.Path); err == nil {
			return rel
		}
		return d.Path
	}
	return ""
}
