package upgrade

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// staying is an engine with one container whose probes always pass, also when the
// engine restarts it.
type staying struct {
	containers.Engine
	at func(since time.Duration) containers.Container
	t0 time.Time
}

func (e *staying) List(context.Context, map[string]string) ([]containers.Container, error) {
	return []containers.Container{e.at(time.Since(e.t0))}, nil
}

func (e *staying) Inspect(context.Context, string) (containers.Container, error) {
	return e.at(time.Since(e.t0)), nil
}

func (e *staying) Exec(context.Context, string, containers.Exec) (int, error) { return 0, nil }

// A service that was not replaced is verified in one run, from the first success of
// its probes to the last; after a restart in the upgrade for longer.
func TestReconnects(t *testing.T) {
	for name, c := range map[string]struct {
		exits []time.Duration // when it exits, from the beginning of verify
		again time.Duration   // how long the engine takes to start it again; negative: never
		took  time.Duration
		want  string
	}{
		"keeps running":                     {nil, 0, 2 * time.Second, ""},
		"was restarted before":              {[]time.Duration{-time.Hour}, 0, 2 * time.Second, ""},
		"is restarted while it is verified": {[]time.Duration{time.Second}, 0, 2 * time.Second, "web: did not keep running (restarts: 1, state: running)"},
		"exited in the upgrade":             {[]time.Duration{-time.Second}, 0, 30 * time.Second, ""},
		"exits repeatedly":                  {[]time.Duration{-time.Second, 19 * time.Second}, 0, 30 * time.Second, "web: did not keep running (restarts: 2, state: running)"},
		"is between two runs":               {[]time.Duration{time.Second}, -1, 2 * time.Second, "web: did not keep running (restarts: 1, state: restarting)"},
		"is between two runs at first":      {[]time.Duration{-time.Second}, 5 * time.Second, 30*time.Second + 4270*time.Millisecond, ""}, // pauses of 10 ms doubled seven times, then of a second
		"does not run again":                {[]time.Duration{-time.Second}, -1, time.Minute, "web: not healthy within 1m0s: container is restarting"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				verified := time.Now()
				machine := host.Real()
				machine.Proc = t.TempDir()
				n := &node.Node{Root: t.TempDir(), Host: machine, Engine: &staying{t0: verified, at: func(since time.Duration) containers.Container {
					now := containers.Container{ID: "c", PID: 100, State: containers.StateRunning, Started: verified.Add(-24 * time.Hour)}
					for i, exit := range c.exits {
						if since < exit {
							break
						}
						now.Restarts, now.PID, now.Started = i+1, now.PID+1, verified.Add(exit+c.again)
						if c.again < 0 || since < exit+c.again {
							now.State = containers.StateRestarting
						}
					}
					return now
				}}}
				tx := &transaction{node: n, began: verified.Add(-time.Minute), to: generation.Generation{Number: 2}}
				probe := nodefile.Probe{Exec: []string{"true"}, StartPeriod: time.Minute, Timeout: time.Minute, Interval: time.Second, Stable: 2 * time.Second}
				err := tx.staysHealthy(t.Context(), generation.Service{Name: "web", Origin: 1, Healthcheck: []nodefile.Probe{probe}})
				got := ""
				if err != nil {
					got = err.Error()
				}
				if took := time.Since(verified); got != c.want || took != c.took {
					t.Errorf("got %q after %v, want %q after %v", got, took, c.want, c.took)
				}
			})
		})
	}
}

// After a rollback, a service that exits again soon after its probes passed is not
// healthy.
func TestHealthyAgain(t *testing.T) {
	for name, c := range map[string]struct {
		exit  time.Duration // after the start; 0: never
		after containers.State
		want  string
	}{
		"keeps running":          {0, "", ""},
		"exits":                  {time.Second, containers.StateExited, "did not keep running (restarts: 0, state: exited)"},
		"exits and is restarted": {time.Second, containers.StateRunning, "did not keep running (restarts: 1, state: running)"},
		"has exited":             {-time.Second, containers.StateExited, "container is exited"},
		"is between two runs":    {-time.Second, containers.StateRestarting, "restarting (0 restarts)"},
		"was restarted":          {-time.Second, containers.StateRunning, "restarting (1 restart, the last one 1s ago)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				n := &node.Node{Root: t.TempDir(), Host: host.Real(), Engine: &staying{t0: began, at: func(since time.Duration) containers.Container {
					now := containers.Container{ID: "c", PID: 100, State: containers.StateRunning, Started: began.Add(-2 * time.Second)}
					if c.exit != 0 && since >= c.exit {
						now.State = c.after
						if c.after == containers.StateRunning {
							now.PID, now.Restarts, now.Started = 101, 1, began.Add(c.exit)
						}
					}
					return now
				}}}
				probe := nodefile.Probe{Exec: []string{"true"}, StartPeriod: time.Minute, Timeout: time.Minute, Interval: time.Second, Stable: 2 * time.Second}
				err := healthyAgain(t.Context(), n, generation.Service{Name: "web", Healthcheck: []nodefile.Probe{probe}}, "c")
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// away is an engine that does not answer for a time.
type away struct {
	staying
	from, to time.Duration
}

func (e *away) Inspect(ctx context.Context, id string) (containers.Container, error) {
	if since := time.Since(e.t0); since >= e.from && since < e.to {
		return containers.Container{}, containers.ErrUnreachable
	}
	return e.staying.Inspect(ctx, id)
}

// An engine that is restarted while a rollback checks what it started again is asked again.
func TestHealthyAgainWithoutEngine(t *testing.T) {
	for name, c := range map[string]struct {
		from, to time.Duration
		want     error
	}{
		"at the beginning": {0, 1500 * time.Millisecond, nil},
		"at the end":       {time.Second, 3500 * time.Millisecond, nil},
		"stays away":       {0, time.Hour, containers.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				n := &node.Node{Root: t.TempDir(), Host: host.Real(), Engine: &away{from: c.from, to: c.to, staying: staying{t0: began, at: func(time.Duration) containers.Container {
					return containers.Container{ID: "c", PID: 100, State: containers.StateRunning, Started: began.Add(-time.Hour)}
				}}}}
				probe := nodefile.Probe{Exec: []string{"true"}, StartPeriod: time.Minute, Timeout: time.Minute, Interval: time.Second, Stable: 2 * time.Second}
				if err := healthyAgain(t.Context(), n, generation.Service{Name: "web", Healthcheck: []nodefile.Probe{probe}}, "c"); !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			})
		})
	}
}
