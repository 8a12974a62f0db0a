package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// healthyWithin is how long a probe of a running service may fail before the service
// is called unhealthy. One failure can be due to a busy machine.
const healthyWithin = 5 * time.Second

// Unhealthy returns the services of a generation that are not healthy now, with the
// reason.
func Unhealthy(ctx context.Context, n *node.Node, services []generation.Service) map[string]error {
	found := map[string]error{}
	var mu sync.Mutex // guards found
	var asked sync.WaitGroup
	for _, s := range services {
		asked.Go(func() {
			if err := healthyNow(ctx, n, s); err != nil {
				mu.Lock()
				defer mu.Unlock()
				found[s.Name] = err
			}
		})
	}
	asked.Wait()
	return found
}

// stoppedError says why a service does not run, and how to repair that. It is drift, so an upgrade does.
type stoppedError struct{ why, remedy string }

const replaces = "run `kollet upgrade`, which replaces it"

func (e stoppedError) Error() string { return e.why }

func healthyNow(ctx context.Context, n *node.Node, s generation.Service) error {
	c, err := n.Container(ctx, s.Name, s.Origin)
	if errors.Is(err, containers.ErrNotFound) {
		return stoppedError{"it has no container", n.Repair(s, "", replaces)}
	}
	if err != nil {
		return err
	}
	if err := health.Restarting(c, n.Host); err != nil {
		return err
	}
	if c.State != containers.StateRunning {
		return stoppedError{"its container is " + c.Condition(), n.Repair(s, c.State, replaces)}
	}
	probes := slices.Clone(s.Healthcheck)
	for i, p := range probes {
		probes[i].StartPeriod = min(p.StartPeriod, max(healthyWithin, p.Timeout)) // one try may take all of its time
	}
	return health.Ready(ctx, health.Of(n.Engine, n.Host, c, s.User), probes)
}

// checkGeneration: without the record of what should run, no upgrade begins.
func checkGeneration(n *node.Node) []Check {
	if _, err := n.Current(); err != nil {
		return []Check{{"generation", Bad, err.Error(), "see docs/recovery.md"}}
	}
	if lost := n.LostLink(); lost != nil {
		return []Check{{"generation", Warning, lost.Error(), "kollet recover"}}
	}
	return nil
}

// checkServices checks what runs, and what the node file's services require.
func checkServices(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	current, err := n.Current()
	if err != nil {
		return nil // checkGeneration reports it
	}
	checks := Requires(ctx, services, Running(ctx, n, current))
	sick := Unhealthy(ctx, n, current.Services)
	for _, s := range current.Services {
		if why := sick[s.Name]; why != nil {
			checks = append(checks, Check{"services", Warning, fmt.Sprintf("%s is unhealthy: %v", s.Name, why), remedyFor(s.Name, why)})
		}
	}
	checks = append(checks, checkRestarts(ctx, n)...)
	if len(sick) == 0 && len(current.Services) > 0 {
		checks = append(checks, Check{Name: "services", Level: Fine, Text: "healthy"})
	}
	return checks
}

func remedyFor(service string, why error) string {
	if e, stopped := errors.AsType[stoppedError](why); stopped {
		return e.remedy
	}
	return "an upgrade that does not replace it is refused; `kollet logs " + service + "` may show why"
}

// checkRestarts: without its log writer, which is kollet, containerd does not restart a
// service that exits.
func checkRestarts(ctx context.Context, n *node.Node) []Check {
	all, err := n.Containers(ctx)
	if err != nil {
		return nil // checkEngine reports it
	}
	var checks []Check
	for _, c := range all {
		if c.NoRestart != "" {
			checks = append(checks, Check{"restart", Bad, fmt.Sprintf("%s would not be restarted if it exited: %s", c.Spec.Name, c.NoRestart), "put kollet back, or a link to it"})
		}
	}
	return checks
}
