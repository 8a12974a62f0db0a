// Package node is the ground floor of the agent: one node with its paths, its
// lock, its engine and its containers. Everything that plans, upgrades or shows
// a node is given one of these.
package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/configs"
	"github.com/kollet/kollet/containers"
)

// Node is one node. The caller sets all fields; the zero value of those marked
// optional is usable.
type Node struct {
	Root     string            // prefix of kollet's own paths (state, node file and what it names); "" on a real node
	NodeFile string            // optional: path of the node file below Root; default DefaultNodeFile
	Name     string            // this node's host name
	Host     host.Host         // the machine
	Version  string            // of kollet
	Command  string            // the user's command, for the journal and the lock: upgrade, recover, …
	Engine   containers.Engine // nil for commands that need none
	Report   func(Event)       // optional: receives progress, from one goroutine at a time

	newKey   generation.Key // see Key
	patience time.Duration  // how long pulls wait for the registry

	systemd func(args ...string) (string, error) // instead of systemctl, in tests
}

// Store holds the node's generations.
func (n *Node) Store() generation.Store { return generation.Store{Dir: n.State()} }

// ReadFile reads the node file. change is applied to it for this run.
func (n *Node) ReadFile(change nodefile.Change) (*nodefile.Node, error) {
	return nodefile.Load(n.NodeFilePath(), configs.Profile, change)
}

// GuestFinder finds the guests that this node's generations started.
func (n *Node) GuestFinder() guest.Finder {
	return guest.Finder{Host: n.Host, Generations: n.Generations(), Hosts: n.Hosts(), Adopted: n.adopted()}
}

// Guests finds the node's guests.
func (n *Node) Guests() ([]guest.Guest, error) { return n.GuestFinder().Find() }

// Container finds the container that was created for a service of a generation.
// ErrNotFound, wrapped, if there is none.
func (n *Node) Container(ctx context.Context, service string, origin int) (containers.Container, error) {
	found, err := n.Engine.List(ctx, n.Labels(service, origin))
	if err != nil {
		return containers.Container{}, err
	}
	return n.theOne(found, service, origin)
}

// ContainerOf is Container for a caller that has all of the node's containers.
func (n *Node) ContainerOf(all []containers.Container, service string, origin int) (containers.Container, error) {
	var found []containers.Container
	for _, c := range all {
		if c.Spec.Labels[LabelService] == service && c.Spec.Labels[LabelGeneration] == strconv.Itoa(origin) {
			found = append(found, c)
		}
	}
	return n.theOne(found, service, origin)
}

// theOne returns the container that was created for a service of a generation, of those that
// have its labels. An image may have labels that its containers inherit; so of several, it is
// the one that has the service's gate.
func (n *Node) theOne(found []containers.Container, service string, origin int) (containers.Container, error) {
	if len(found) == 0 {
		return containers.Container{}, fmt.Errorf("container of %s from generation %d: %w", service, origin, containers.ErrNotFound)
	}
	gate := n.Store().Gate(origin, service)
	hasGate := func(c containers.Container) bool {
		return slices.ContainsFunc(c.Spec.Mounts, func(m containers.Mount) bool { return m.Source == gate })
	}
	if len(found) > 1 && slices.ContainsFunc(found, hasGate) {
		found = slices.DeleteFunc(found, func(c containers.Container) bool { return !hasGate(c) })
	}
	if len(found) > 1 { // nobody knows which of them serves
		var names []string
		for _, c := range found {
			names = append(names, fmt.Sprintf("%s (%.12s)", c.Spec.Name, c.ID))
		}
		return containers.Container{}, fmt.Errorf("several containers are labelled as that of %s from generation %d: %s; remove all except one of them", service, origin, strings.Join(names, ", "))
	}
	return found[0], nil
}

// Containers lists all containers that kollet created on this node.
func (n *Node) Containers(ctx context.Context) ([]containers.Container, error) {
	return n.Engine.List(ctx, n.Labels("", 0))
}

// Unlisted returns the containers of this node that run, and that its engine does not know. It
// is given those that the engine lists.
func (n *Node) Unlisted(ctx context.Context, listed []containers.Container) ([]guest.Unlisted, error) {
	var ids []string
	for _, c := range listed {
		ids = append(ids, c.ID)
	}
	found, err := n.GuestFinder().Unlisted(ids)
	if err != nil {
		return nil, err
	}
	var unlisted []guest.Unlisted
	for _, u := range found {
		// A container that an operator started may have the volumes of one of kollet's (--volumes-from).
		_, err := n.Engine.Inspect(ctx, u.Container)
		if errors.Is(err, containers.ErrNotFound) {
			unlisted = append(unlisted, u)
		} else if err != nil {
			return nil, err
		}
	}
	return unlisted, nil
}

// HostName returns the node's name as Nova knows it: the kernel's.
func HostName() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read this machine's name: %w", err)
	}
	return name, nil
}

// LastJournal returns the records of the last upgrade, and the generation that it went to:
// 0 if there was none. A journal that cannot be read needs an operator.
func (n *Node) LastJournal() (int, []journal.Record, error) {
	numbers, err := journal.List(n.Journals())
	if err != nil || len(numbers) == 0 {
		return 0, nil, err
	}
	last := numbers[len(numbers)-1]
	records, err := journal.Read(n.Journals(), last)
	if err != nil {
		return last, nil, NeedsOperator{Err: err}
	}
	return last, records, nil
}

// Interrupted reports whether the last upgrade was interrupted.
func (n *Node) Interrupted() (bool, error) {
	last, records, err := n.LastJournal()
	return err == nil && last > 0 && !journal.Ended(records), err
}

// LastUndone returns the generation that the last upgrade went to, 0 if there was none, and reports
// whether it ended without a commit. It may still be under way if its journal is damaged.
func (n *Node) LastUndone() (last int, undone bool, err error) {
	last, records, err := n.LastJournal()
	if last == 0 {
		return 0, false, err
	}
	return last, err == nil && journal.Ended(records) && !journal.HasCommitted(records), nil
}
