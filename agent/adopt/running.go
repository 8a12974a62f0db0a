package adopt

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// Running returns a service of generation 0: a container of kolla-ansible as it is, with its own
// health check, and with what is known of the service that replaces it, such as how to ask it for
// its guests.
func Running(ctx context.Context, engine containers.Engine, c containers.Container, next generation.Service) (generation.Service, error) {
	image, err := engine.Image(ctx, c.ImageID)
	if err != nil {
		return next, fmt.Errorf("the image of %s: %w", c.Spec.Name, err)
	}
	s := next
	s.Ref, s.Image = c.Spec.Image, generation.Image{ID: image.ID, Digest: image.Digest}
	s.Spec = c.Spec
	s.Spec.Name, s.Spec.Image, s.Spec.Labels = "", "", nil
	s.Spec.Env = maps.Clone(c.Spec.Env)
	delete(s.Spec.Env, gate.Strategy)
	if s.Spec.Env[node.ServiceVariable] == next.Name {
		delete(s.Spec.Env, node.ServiceVariable)
	}
	s.Spec.Mounts = slices.DeleteFunc(slices.Clone(c.Spec.Mounts), node.IsConfigMount)
	s.User, s.Argv, s.Command = image.User, slices.Concat(image.Entrypoint, image.Command), nil
	s.Files, s.Permissions, s.Preload, s.Warmup = nil, nil, nil, nil
	s.Healthcheck, s.Requires = probes(c.Spec), nil
	s.Origin = 0
	return s, nil
}

// Times of a probe for which kolla-ansible has none: the node file's defaults.
const (
	probeStable  = 2 * time.Second
	probeTimeout = 10 * time.Second
)

// probes are the health check of a container as kollet tries it.
func probes(spec containers.Spec) []nodefile.Probe {
	t := translated{container: spec.Name}
	t.health(spec.Healthcheck)
	for i := range t.service.Healthcheck {
		p := &t.service.Healthcheck[i]
		p.Stable, p.Timeout = probeStable, cmp.Or(p.Timeout, probeTimeout)
	}
	return t.service.Healthcheck
}
