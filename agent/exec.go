package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Services names the services of the generation that runs.
func (a *Agent) Services() ([]string, error) {
	current, err := a.node.Current()
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
	return a.node.Engine.Logs(ctx, c.ID, opts, w)
}

// Exec runs a command in a service's container and returns its exit status. It
// runs as the service's user unless another is given.
func (a *Agent) Exec(ctx context.Context, service string, cmd containers.Exec) (int, error) {
	c, s, err := a.serviceContainer(ctx, service)
	if err != nil {
		return 0, err
	}
	if c.State == containers.StatePaused {
		return 0, fmt.Errorf("%s is paused; %s", service, a.node.Repair(s, c.State, "run `kollet upgrade`, which replaces it"))
	}
	if cmd.User == "" {
		cmd.User = s.User
	}
	return a.node.Engine.Exec(ctx, c.ID, cmd)
}

func (a *Agent) serviceContainer(ctx context.Context, service string) (containers.Container, generation.Service, error) {
	current, err := a.node.Current()
	if err != nil {
		return containers.Container{}, generation.Service{}, err
	}
	if current.Number == 0 {
		return containers.Container{}, generation.Service{}, node.ErrNoGeneration
	}
	s, ok := current.Service(service)
	if !ok {
		var names []string
		for _, s := range current.Services {
			names = append(names, s.Name)
		}
		return containers.Container{}, generation.Service{}, node.BadInput{Err: fmt.Errorf("the node has no service %q; it has %s", service, strings.Join(names, ", "))}
	}
	c, err := a.node.Container(ctx, s.Name, s.Origin)
	if errors.Is(err, containers.ErrNotFound) {
		err = fmt.Errorf("%w; %s", err, a.node.Repair(s, "", "run `kollet upgrade`, which creates it again"))
	}
	return c, s, err
}
