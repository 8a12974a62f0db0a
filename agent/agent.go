// Package agent is the node: it reads what the node should run, plans, and
// takes the node from one generation to the next. upgrade.go holds the upgrade
// protocol, top to bottom; recover.go brings an interrupted one to one of its
// two ends.
package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// Agent acts on one node. All fields are set by whoever makes it; the zero
// value of those marked optional is usable.
type Agent struct {
	Root     string            // put before kollet's own paths (state, node file and what it names); "" on a real node
	NodeFile string            // optional: path of the node file, without Root; default DefaultNodeFile
	Host     string            // this node's name
	Version  string            // of kollet
	Command  string            // what the user asked for, for the journal and the lock: upgrade, recover, …
	Engine   containers.Engine // nil where a command needs none
	Report   func(Event)       // optional: told of progress, from one goroutine at a time
	Now      func() time.Time
}

// Paths on a node, below Root.
const (
	StateDir        = "/var/lib/kollet"
	DefaultNodeFile = "/etc/kollet/node.yaml"
	OverridesDir    = "/etc/kollet/config"
	TemplatesDir    = "/etc/kollet/templates"
	InstanceData    = "/run/cloud-init/instance-data.json" // cloud-init: doc/rtd/explanation/instancedata.rst
)

// proc is where the kernel tells about processes.
const proc = "/proc"

// Labels that kollet's containers carry.
const (
	LabelNode       = "org.kollet.node"       // state directory of the node it belongs to
	LabelService    = "org.kollet.service"    // its service
	LabelGeneration = "org.kollet.generation" // the generation it was made for
)

func (a *Agent) path(p string) string { return filepath.Join(a.Root, p) }

func (a *Agent) state() string { return a.path(StateDir) }

func (a *Agent) journals() string { return filepath.Join(a.state(), "journal") }

func (a *Agent) store() generation.Store { return generation.Store{Dir: a.state()} }

func (a *Agent) nodeFile() string {
	if a.NodeFile == "" {
		return a.path(DefaultNodeFile)
	}
	return a.path(a.NodeFile)
}

func (a *Agent) finder() guest.Finder {
	return guest.Finder{Proc: proc, Generations: filepath.Join(a.state(), "generations")}
}

func (a *Agent) guests() ([]guest.Guest, error) { return a.finder().Find() }

// EngineName says which engine the node uses: that of the generation that runs,
// else the node file's, which may be none that there is.
func (a *Agent) EngineName() (string, error) {
	current, err := a.store().Current()
	if err != nil {
		return "", err
	}
	if current.Engine != "" {
		return current.Engine, nil
	}
	return nodefile.Engine(a.nodeFile()), nil
}

// Event is progress of a command, for people to see.
type Event struct {
	Kind    EventKind `json:"event"`
	Step    string    `json:"step,omitempty"`
	Service string    `json:"service,omitempty"`
	Text    string    `json:"text,omitempty"`
	Done    int64     `json:"done,omitempty"`  // bytes, of a pull
	Total   int64     `json:"total,omitempty"` // bytes known so far
}

// EventKind says what an Event is about.
type EventKind string

const (
	StepBegins EventKind = "begin" // Step
	StepEnds   EventKind = "end"   // Step; Text is how long it took
	StepFails  EventKind = "fail"  // Step; Text is why
	Pulling    EventKind = "pull"  // Service, Done, Total; Text is what the engine says
	Note       EventKind = "note"  // Text, and Service where it is about one
)

func (a *Agent) report(e Event) {
	if a.Report != nil {
		a.Report(e)
	}
}

func (a *Agent) note(service, format string, args ...any) {
	a.report(Event{Kind: Note, Service: service, Text: fmt.Sprintf(format, args...)})
}

// ErrLocked means that another kollet changes this node.
var ErrLocked = errors.New("another kollet is at work")

// BadInput wraps what is wrong with the node file and what it names. Nothing
// was touched.
type BadInput struct{ Err error }

func (e BadInput) Error() string { return e.Err.Error() }
func (e BadInput) Unwrap() error { return e.Err }

// NeedsOperator means that the node is in neither of an upgrade's two ends, or
// in one of them but not healthy.
type NeedsOperator struct{ Err error }

func (e NeedsOperator) Error() string { return e.Err.Error() }
func (e NeedsOperator) Unwrap() error { return e.Err }

// labels select this node's containers, or those of one generation's service.
func (a *Agent) labels(service string, number int) map[string]string {
	l := map[string]string{LabelNode: a.state()}
	if service != "" {
		l[LabelService] = service
		l[LabelGeneration] = fmt.Sprint(number)
	}
	return l
}

// container finds the container that was made for a service of a generation.
func (a *Agent) container(ctx context.Context, service string, origin int) (containers.Container, error) {
	found, err := a.Engine.List(ctx, a.labels(service, origin))
	if err != nil {
		return containers.Container{}, err
	}
	if len(found) == 0 {
		return containers.Container{}, fmt.Errorf("container of %s from generation %d: %w", service, origin, containers.ErrNotFound)
	}
	return found[0], nil
}

// HostName is the node's name as nova knows it: what the kernel says.
func HostName() (string, error) {
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read this machine's name: %w", err)
	}
	return name, nil
}
