package agent

import (
	"context"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/target"
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
	current, err := a.node.Store().Current()
	if err != nil {
		return Status{}, err
	}
	st := Status{Node: a.node.Name, Generation: current.Number, Since: current.Created, Services: []ServiceStatus{}}
	if st.Engine, err = a.node.Engine.Info(ctx); err != nil {
		return st, err
	}
	guests, err := a.node.Guests()
	if err != nil {
		return st, err
	}
	st.Guests = len(guests)
	if st.Interrupted, err = a.node.Interrupted(); err != nil {
		st.Problem = err.Error()
	}
	st.Healthy = current.Number > 0 && !st.Interrupted && st.Problem == ""
	for _, s := range current.Services {
		row := ServiceStatus{Name: s.Name, Image: s.Ref, ImageID: s.Image.ID, Generation: s.Origin, Health: "unknown"}
		c, err := a.node.Container(ctx, s.Name, s.Origin)
		if err != nil {
			row.State, row.Why = "missing", "run `kollet verify`, then `kollet upgrade` to repair it"
		} else {
			row.State, row.Container, row.PID, row.Since = string(c.State), c.ID, c.PID, c.Started
			if c.State == containers.StateRunning {
				row.Health, row.Why = a.probe(ctx, health.Target{Engine: a.node.Engine, Host: a.node.Host, ID: c.ID, PID: c.PID, User: s.User}, s)
			}
		}
		st.Healthy = st.Healthy && (row.Health == "healthy" || row.Health == "none")
		st.Services = append(st.Services, row)
	}
	return st, nil
}

// probe tries a service's probes once. The reason of a failure has no secrets.
func (a *Agent) probe(ctx context.Context, at health.Target, s generation.Service) (verdict, why string) {
	if len(s.Healthcheck) == 0 {
		return "none", ""
	}
	if err := health.Try(ctx, at, s.Healthcheck); err != nil {
		return "unhealthy", target.RedactorOf(a.node).Text(err.Error())
	}
	return "healthy", ""
}
