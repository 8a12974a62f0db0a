package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/agent/quiesce"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
)

// Status is what runs.
type Status struct {
	Node          string          `json:"node"`
	Generation    int             `json:"generation"`
	Since         time.Time       `json:"since"`
	Engine        containers.Info `json:"engine"`
	Healthy       bool            `json:"healthy"`
	node.Underway                 // its Problem may also be with the record of the disabled service, or with the link to the generation
	Disabled      *quiesce.Mark   `json:"disabled,omitempty"` // kollet disabled the compute service
	Hotfix        nodefile.Hotfix `json:"hotfix,omitzero"`    // instead of the node file's tag and images
	Services      []ServiceStatus `json:"services"`
	Guests        int             `json:"guests"`
}

// ServiceStatus is what runs of one service.
type ServiceStatus struct {
	Name       string    `json:"name"`
	State      string    `json:"state"`
	Health     string    `json:"health"` // healthy, unhealthy, restarting, none (no probes), unknown (does not run)
	Why        string    `json:"why,omitempty"`
	Image      string    `json:"image"`
	InsteadOf  string    `json:"instead_of,omitempty"` // the node file's image, when a hotfix gave another one
	ImageID    string    `json:"image_id"`
	Generation int       `json:"generation"` // in which it last changed
	Since      time.Time `json:"since"`
	Container  string    `json:"container"`
	PID        int       `json:"pid,omitempty"`
	Restarts   int       `json:"restarts"`            // after it exited by itself
	ExitCode   *int      `json:"exit_code,omitempty"` // of its last run, if it does not run now
}

// Status asks the engine and every probe, once.
func (a *Agent) Status(ctx context.Context) (Status, error) {
	current, err := a.node.Current()
	if err != nil {
		return Status{}, err
	}
	st := Status{Node: a.node.Name, Generation: current.Number, Since: current.Created, Hotfix: current.Hotfix, Services: []ServiceStatus{}}
	st.Underway = a.node.Underway()
	if st.Engine, err = a.node.Engine.Info(ctx); err != nil {
		if st.Interrupted { // known without the engine
			err = fmt.Errorf("%w\n%s", err, st.Interruption())
		}
		return st, err
	}
	guests, err := a.node.Guests()
	if err != nil {
		return st, err
	}
	st.Guests = len(guests)
	if lost := a.node.LostLink(); lost != nil && st.Problem == "" {
		st.Problem = lost.Error()
	}
	if st.Disabled, err = (quiesce.Store{Dir: a.node.State()}).Marked(); err != nil && st.Problem == "" {
		st.Problem = err.Error()
	}
	st.Healthy = current.Number > 0 && !st.Interrupted && st.Problem == ""
	cutOver := a.node.CutOver()
	for _, s := range current.Services {
		row := ServiceStatus{Name: s.Name, Image: s.Ref, InsteadOf: s.InsteadOf, ImageID: s.Image.ID, Generation: s.Origin, Health: "unknown"}
		c, err := a.node.Container(ctx, s.Name, s.Origin)
		switch {
		case errors.Is(err, containers.ErrNotFound):
			row.State, row.Why = "missing", a.node.Repair(s, "", "run `kollet verify`, then `kollet upgrade` to repair it")
		case err != nil:
			row.State, row.Why = "unknown", err.Error()
		default:
			row.State, row.Container, row.PID, row.Since, row.Restarts = string(c.State), c.ID, c.PID, c.Started, c.Restarts
			row.Health, row.Why = a.health(ctx, c, s)
			if c.State == containers.StateExited || c.State == containers.StateRestarting && !c.Finished.IsZero() {
				row.ExitCode = &c.ExitCode
			}
		}
		if slices.Contains(cutOver, s.Name) && row.State != string(containers.StateRunning) {
			row.Why = a.replaced(ctx, s.Name, st.Underway)
		}
		st.Healthy = st.Healthy && (row.Health == "healthy" || row.Health == "none")
		st.Services = append(st.Services, row)
	}
	return st, nil
}

// replaced says what runs of a service that an upgrade under way has begun to cut over.
func (a *Agent) replaced(ctx context.Context, service string, u node.Underway) string {
	if !u.Interrupted {
		return "the upgrade replaces it"
	}
	c, err := a.node.Container(ctx, service, u.To)
	runs := err == nil && c.State == containers.StateRunning
	switch {
	case runs && u.Committed:
		return fmt.Sprintf("the container of generation %d runs; `kollet recover` finishes the upgrade", u.To)
	case runs:
		return fmt.Sprintf("the container of generation %d runs until `kollet recover` undoes the upgrade", u.To)
	case u.Committed:
		return "may be stopped until `kollet recover` finishes the upgrade"
	}
	return "may be stopped until `kollet recover` undoes the upgrade"
}

// health tries a service's probes once, unless it restarts repeatedly: between two
// crashes its probes may pass. The reason of a failure has no secrets.
func (a *Agent) health(ctx context.Context, c containers.Container, s generation.Service) (verdict, why string) {
	if err := health.Restarting(c, a.node.Host); err != nil {
		return "restarting", err.Error() + "; `kollet logs " + s.Name + "` may show why"
	}
	if c.State != containers.StateRunning {
		return "unknown", "it is " + c.Condition() + "; " + a.node.Repair(s, c.State, "run `kollet upgrade`, which replaces it")
	}
	if err := health.Try(ctx, health.Of(a.node.Engine, a.node.Host, c, s.User), s.Healthcheck); err != nil {
		return "unhealthy", target.RedactorOf(a.node).Text(err.Error())
	}
	if len(s.Healthcheck) == 0 {
		return "none", ""
	}
	return "healthy", ""
}
