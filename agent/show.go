package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Status is what runs.
type Status struct {
	Node        string          `json:"node"`
	Generation  int             `json:"generation"`
	Since       time.Time       `json:"since"`
	Engine      containers.Info `json:"engine"`
	Healthy     bool            `json:"healthy"`
	Interrupted bool            `json:"interrupted"`       // an upgrade waits for `kollet recover`
	Problem     string          `json:"problem,omitempty"` // why the last upgrade's journal cannot be read
	Services    []ServiceStatus `json:"services"`
	Guests      int             `json:"guests"`
}

// ServiceStatus is what runs of one service.
type ServiceStatus struct {
	Name       string    `json:"name"`
	State      string    `json:"state"`
	Health     string    `json:"health"` // healthy, unhealthy, none (no probes), unknown (does not run)
	Why        string    `json:"why,omitempty"`
	Image      string    `json:"image"`
	ImageID    string    `json:"image_id"`
	Generation int       `json:"generation"` // in which it last changed
	Since      time.Time `json:"since"`
	Container  string    `json:"container"`
	PID        int       `json:"pid,omitempty"`
}

// Status asks the engine and every probe, once.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	current, err := a.Store().Current()
	if err != nil {
		return Status{}, err
	}
	st := Status{Node: a.Name, Generation: current.Number, Since: current.Created, Services: []ServiceStatus{}}
	if st.Engine, err = a.Engine.Info(ctx); err != nil {
		return st, err
	}
	guests, err := a.Node.Guests()
	if err != nil {
		return st, err
	}
	st.Guests = len(guests)
	if st.Interrupted, err = a.unfinished(); err != nil {
		st.Problem = err.Error()
	}
	st.Healthy = current.Number > 0 && !st.Interrupted && st.Problem == ""
	for _, s := range current.Services {
		row := ServiceStatus{Name: s.Name, Image: s.Ref, ImageID: s.Image.ID, Generation: s.Origin, Health: "unknown"}
		c, err := a.Container(ctx, s.Name, s.Origin)
		if err != nil {
			row.State, row.Why = "missing", "run `kollet verify`, then `kollet upgrade` to repair it"
		} else {
			row.State, row.Container, row.PID, row.Since = string(c.State), c.ID, c.PID, c.Started
			if c.State == containers.StateRunning {
				row.Health, row.Why = a.probe(ctx, health.Target{Engine: a.Engine, ID: c.ID, PID: c.PID, User: s.User}, s)
			}
		}
		st.Healthy = st.Healthy && (row.Health == "healthy" || row.Health == "none")
		st.Services = append(st.Services, row)
	}
	return st, nil
}

// probe tries a service's probes once.
func (a *Agent) probe(ctx context.Context, target health.Target, s generation.Service) (verdict, why string) {
	if len(s.Health) == 0 {
		return "none", ""
	}
	if err := health.Try(ctx, target, s.Health); err != nil {
		return "unhealthy", err.Error()
	}
	return "healthy", ""
}

// unfinished reports whether the last upgrade was interrupted. A journal that
// cannot be read needs an operator.
func (a *Agent) unfinished() (bool, error) {
	numbers, err := journal.List(a.Journals())
	if err != nil || len(numbers) == 0 {
		return false, err
	}
	records, err := journal.Read(a.Journals(), numbers[len(numbers)-1])
	if err != nil {
		return false, node.NeedsOperator{Err: err}
	}
	return !journal.Ended(records), nil
}

// Entry is one upgrade of the node's history.
type Entry struct {
	Generation int                    `json:"generation"`
	From       int                    `json:"from"`
	Reason     string                 `json:"reason"`
	Started    time.Time              `json:"started"`
	Took       Seconds                `json:"seconds"`
	Outcome    journal.Outcome        `json:"outcome"` // empty while it goes on, or if it was interrupted
	Current    bool                   `json:"current"`
	Kept       bool                   `json:"kept"` // can be rolled back to
	Why        string                 `json:"why,omitempty"`
	Phases     []Phase                `json:"phases"`
	Gaps       map[string]journal.Gap `json:"gaps,omitempty"`
}

// Seconds is a duration that JSON shows in seconds.
type Seconds time.Duration

// MarshalJSON writes seconds, with milliseconds.
func (s Seconds) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, time.Duration(s).Round(time.Millisecond).Seconds(), 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	seconds, err := strconv.ParseFloat(string(data), 64)
	*s = Seconds(seconds * float64(time.Second))
	return err
}

// Phase is how long a step took.
type Phase struct {
	Step string  `json:"step"`
	Took Seconds `json:"seconds"`
}

// Unreadable is the outcome of an upgrade whose journal another version of
// kollet wrote, in a format that this one does not know.
const Unreadable journal.Outcome = "unreadable"

// History lists all upgrades that left a journal, the latest first.
func (a *Agent) History() ([]Entry, error) {
	numbers, err := journal.List(a.Journals())
	if err != nil {
		return nil, err
	}
	current, err := a.Store().Current()
	if err != nil {
		return nil, err
	}
	entries := []Entry{}
	for i := len(numbers) - 1; i >= 0; i-- {
		records, err := journal.Read(a.Journals(), numbers[i])
		e := entry(numbers[i], records)
		var unknown *format.UnknownError
		if errors.As(err, &unknown) {
			e.Outcome, e.Why = Unreadable, err.Error()
		} else if err != nil {
			return nil, err
		}
		_, err = os.Stat(a.Store().Path(e.Generation))
		e.Current, e.Kept = e.Generation == current.Number, err == nil
		entries = append(entries, e)
	}
	return entries, nil
}

func entry(number int, records []journal.Record) Entry {
	e := Entry{Generation: number, Phases: []Phase{}}
	var begun time.Time
	for i, r := range records {
		if i == 0 { // its beginning, unless a crash left nothing but recovery's end
			e.Started, begun = r.Time, r.Time
		}
		switch r.Event {
		case journal.Begin:
			e.From, e.Reason = r.From, r.Reason
		case journal.Intent, journal.Undo:
			begun = r.Time
		case journal.Done:
			e.Phases = append(e.Phases, Phase{r.Step.Text(r.Event), Seconds(r.Time.Sub(begun))})
		case journal.Undone:
			e.Phases = append(e.Phases, Phase{r.Step.Text(r.Event), Seconds(r.Time.Sub(begun))})
		case journal.Failed:
			e.Phases = append(e.Phases, Phase{r.Step.Text(r.Event), Seconds(r.Time.Sub(begun))})
			if e.Why == "" {
				e.Why = r.Note
			}
		case journal.Commit:
			e.Gaps = r.Gaps
		case journal.End:
			e.Outcome = r.Outcome
		}
		e.Took = Seconds(r.Time.Sub(e.Started))
	}
	return e
}

// previous is the generation that the current one replaced.
func (a *Agent) previous() (int, error) {
	current, err := a.Store().Current()
	if err != nil {
		return 0, err
	}
	if current.Number == 0 {
		return 0, node.ErrNoGeneration
	}
	records, err := journal.Read(a.Journals(), current.Number)
	if err != nil {
		return 0, err
	}
	if len(records) == 0 || records[0].From == 0 {
		return 0, fmt.Errorf("generation %d is the node's first: there is none to go back to", current.Number)
	}
	return records[0].From, nil
}

// Render writes the files that the node file gives to a directory, one folder a
// service, and changes nothing else. They hold secrets.
func (a *Agent) Render(opts Options, dir string) ([]string, error) {
	t, err := a.read(opts, "render")
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, s := range t.services {
		for i, f := range s.Files {
			path := filepath.Join(dir, s.Name, f.Dest)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			if err := os.WriteFile(path, t.files[s.Name][i].Content, 0o600); err != nil {
				return paths, fmt.Errorf("render %s: %w", s.Name, err)
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// Services names the services of the generation that runs.
func (a *Agent) Services() ([]string, error) {
	current, err := a.Store().Current()
	names := make([]string, len(current.Services))
	for i, s := range current.Services {
		names[i] = s.Name
	}
	return names, err
}

// Logs copies what a service printed.
func (a *Agent) Logs(ctx context.Context, service string, opts containers.LogOptions, w io.Writer) error {
	c, _, err := a.serviceContainer(ctx, service)
	if err != nil {
		return err
	}
	return a.Engine.Logs(ctx, c.ID, opts, w)
}

// Exec runs a command in a service's container and returns its exit status. It
// runs as the service's user unless another is given.
func (a *Agent) Exec(ctx context.Context, service string, cmd containers.Exec) (int, error) {
	c, user, err := a.serviceContainer(ctx, service)
	if err != nil {
		return 0, err
	}
	if cmd.User == "" {
		cmd.User = user
	}
	return a.Engine.Exec(ctx, c.ID, cmd)
}

func (a *Agent) serviceContainer(ctx context.Context, service string) (containers.Container, string, error) {
	current, err := a.Store().Current()
	if err != nil {
		return containers.Container{}, "", err
	}
	if current.Number == 0 {
		return containers.Container{}, "", node.ErrNoGeneration
	}
	s, ok := current.Service(service)
	if !ok {
		var names []string
		for _, s := range current.Services {
			names = append(names, s.Name)
		}
		return containers.Container{}, "", node.BadInput{Err: fmt.Errorf("the node has no service %q; it has %s", service, strings.Join(names, ", "))}
	}
	c, err := a.Container(ctx, s.Name, s.Origin)
	return c, s.User, err
}
