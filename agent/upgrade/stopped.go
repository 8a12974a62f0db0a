package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// lookTime is how long the engine may take to say what runs, after a failure that it may be
// the cause of.
const lookTime = 10 * time.Second

// withStopped adds to an error that needs an operator which services do not run, if the
// engine says so. One that does not list what runs cannot know.
func withStopped(ctx context.Context, n *node.Node, err error) error {
	_, needed := errors.AsType[node.NeedsOperator](err)
	if _, blind := errors.AsType[unlistedError](err); !needed || blind {
		return err
	}
	current, unknown := n.Current()
	if unknown != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer cancel()
	all, unknown := n.Containers(ctx)
	if unknown != nil {
		return err
	}
	var stopped []string
	for _, s := range current.Services {
		if why := whyStopped(n, current, s, all); why != "" {
			stopped = append(stopped, fmt.Sprintf("%s (%s)", s.Name, why))
		}
	}
	if len(stopped) == 0 {
		return err
	}
	return node.NeedsOperator{Err: fmt.Errorf("%w\nservices that do not run: %s", err, strings.Join(stopped, ", "))}
}

// whyStopped says in which condition a service is; empty if a container of it serves. One that
// an upgrade has staged does only past its gate.
func whyStopped(n *node.Node, current generation.Generation, s generation.Service, all []containers.Container) string {
	serves := func(c containers.Container) bool {
		number := node.GenerationOf(c)
		return c.Spec.Labels[node.LabelService] == s.Name && c.State == containers.StateRunning &&
			(number <= current.Number || gate.IsOpen(n.Store().Gate(number, s.Name)))
	}
	if slices.ContainsFunc(all, serves) {
		return ""
	}
	c, err := n.ContainerOf(all, s.Name, s.Origin)
	if errors.Is(err, containers.ErrNotFound) {
		return "it has no container"
	}
	if err != nil {
		return err.Error()
	}
	return c.Condition()
}
