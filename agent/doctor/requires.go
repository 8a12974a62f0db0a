package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
)

// Containers returns the container in which the probes of a service are run, if one
// runs.
type Containers func(service string) (health.Target, bool)

// requirement is a probe of what services require. Services that require the same
// share it, unless it depends on their containers.
type requirement struct {
	probe    nodefile.Probe
	services []string
	target   health.Target
}

// Requires checks what services need outside of the node, such as the message broker.
// A probe that needs a container is left out as long as none runs.
func Requires(ctx context.Context, services []generation.Service, in Containers) []Check {
	required := requirements(services, in)
	checks := make([]Check, len(required))
	var asked sync.WaitGroup
	for i, r := range required {
		asked.Go(func() { checks[i] = r.check(ctx) })
	}
	asked.Wait()
	return checks
}

func requirements(services []generation.Service, in Containers) []requirement {
	var all []requirement
	for _, s := range services {
		for _, p := range s.Requires {
			target, runs := in(s.Name)
			if p.InContainer() && !runs {
				continue
			}
			kind, address := p.Address()
			same := func(r requirement) bool {
				k, a := r.probe.Address()
				return !p.InContainer() && k == kind && a == address
			}
			if at := slices.IndexFunc(all, same); at >= 0 {
				all[at].services = append(all[at].services, s.Name)
				continue
			}
			all = append(all, requirement{p, []string{s.Name}, target})
		}
	}
	return all
}

func (r requirement) check(ctx context.Context) Check {
	services := strings.Join(r.services, ", ")
	if err := health.Answers(ctx, r.target, r.probe); err != nil {
		return Check{"requires", Bad, fmt.Sprintf("%s: %v", services, err), "start or repair what the service needs, or correct the node file"}
	}
	_, address := r.probe.Address()
	return Check{Name: "requires", Level: Fine, Text: fmt.Sprintf("%s: %s answers", services, address)}
}

// Running returns the containers of a generation's services.
func Running(ctx context.Context, n *node.Node, g generation.Generation) Containers {
	return func(service string) (health.Target, bool) {
		s, known := g.Service(service)
		if !known {
			return health.Target{}, false
		}
		c, err := n.Container(ctx, s.Name, s.Origin)
		return health.Of(n.Engine, n.Host, c, s.User), err == nil && c.PID != 0
	}
}
