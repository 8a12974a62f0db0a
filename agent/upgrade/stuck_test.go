package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// stopped is an engine with a container for each service, in the states that it is in
// after a rollback. That of broken cannot be started.
type stopped struct {
	wards
}

func (e *stopped) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	return slices.DeleteFunc(slices.Clone(e.all), func(c containers.Container) bool {
		return c.Spec.Labels[node.LabelService] != labels[node.LabelService]
	}), nil
}

func (e *stopped) Start(_ context.Context, id string) error {
	if id == "broken1" {
		return errors.New("its volume is gone")
	}
	e.did = append(e.did, "start "+id)
	return nil
}

// A recovery starts what ran before an upgrade and what its rollback could not start,
// and nothing else.
func TestStartStopped(t *testing.T) {
	e := &stopped{}
	current := generation.Generation{Number: 1}
	for name, state := range map[string]containers.State{
		"failed": containers.StateExited, "broken": containers.StateExited, "before": containers.StateExited,
		"runs": containers.StateRunning, "restarts": containers.StateRestarting,
	} {
		c := made(name, 1)
		c.State = state
		e.all = append(e.all, c)
		current.Services = append(current.Services, generation.Service{Name: name, Origin: 1, Spec: containers.Spec{Restart: containers.RestartAlways}})
	}
	var notes []string
	n := &node.Node{Root: t.TempDir(), Host: host.Real(), Engine: e, Report: func(e node.Event) { notes = append(notes, e.Text) }}
	startStopped(t.Context(), n, current, []journal.Record{
		{Event: journal.Intent, Previous: map[string][]string{"failed": {"failed1"}, "broken": {"broken1"}}},
		{Event: journal.Intent, Previous: map[string][]string{"before": {}, "runs": {"runs1"}, "restarts": {"restarts1"}}},
	})
	slices.Sort(e.did)
	if got, want := strings.Join(e.did, ", "), "start failed1, update broken1 always, update failed1 always"; got != want {
		t.Errorf("did %s\nwant %s", got, want)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "its volume is gone") {
		t.Errorf("people are told %q", notes)
	}
}
