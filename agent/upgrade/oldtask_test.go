package upgrade

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// wards is an engine with containers of service a, and one without labels.
type wards struct {
	containers.Engine
	all    []containers.Container
	manual containers.Container
	did    []string
}

func (e *wards) List(context.Context, map[string]string) ([]containers.Container, error) {
	return e.all, nil
}

func (e *wards) Inspect(_ context.Context, id string) (containers.Container, error) {
	for _, c := range append(e.all, e.manual) {
		if c.ID == id || c.Spec.Name == id {
			return c, nil
		}
	}
	return containers.Container{}, containers.ErrNotFound
}

func (e *wards) Update(_ context.Context, id, _ string, restart containers.Restart) error {
	e.did = append(e.did, fmt.Sprintf("update %s %s", id, restart))
	return nil
}

func (e *wards) Stop(_ context.Context, id string, _ time.Duration) error {
	e.did = append(e.did, "stop "+id)
	return nil
}

// A cutover stops the containers that run or that the engine starts again,
// and no others.
func TestRunning(t *testing.T) {
	for state, stops := range map[containers.State]bool{
		containers.StateCreated:    false,
		containers.StateRunning:    true,
		containers.StatePaused:     true,
		containers.StateRestarting: true,
		containers.StateExited:     false,
		containers.StateRemoving:   false,
		containers.StateOther:      true,
	} {
		t.Run(string(state), func(t *testing.T) {
			old, staged := made("a", 1), made("a", 2)
			old.State, staged.State = state, containers.StateRunning
			manual := containers.Container{ID: "manual", State: state, Spec: containers.Spec{Name: "a"}}
			tx := &transaction{node: &node.Node{Engine: &wards{all: []containers.Container{old, staged}, manual: manual}}, to: generation.Generation{Number: 2}}
			got, err := tx.running(t.Context(), group{{name: "a"}})
			want := []string{}
			if stops {
				want = []string{"a1", "manual"}
			}
			if err != nil || !slices.Equal(got["a"], want) {
				t.Errorf("got %q, %v, want %q", got["a"], err, want)
			}
		})
	}
}

// A container without a process that could be signalled is stopped by the engine: it
// may be paused, may be started again at any moment, or its number may be that of
// another process by now.
func TestStopOldWithoutProcess(t *testing.T) {
	n := newCutoverNode(t)
	other := n.start("/docker/other", loop)
	for _, c := range []containers.Container{
		{ID: "paused", State: containers.StatePaused, PID: other.Process.Pid},
		{ID: "restarting", State: containers.StateRestarting},
		{ID: "gone", State: containers.StateRunning, PID: other.Process.Pid},
		{ID: "never", State: containers.StateRunning},
	} {
		t.Run(c.ID, func(t *testing.T) {
			engine := &wards{all: []containers.Container{c}}
			n.node.Engine = engine
			tx := newTransaction(n.node, nil, generation.Generation{})
			old, err := tx.oldTask(t.Context(), member{name: "a", new: generation.Service{Name: "a"}}, c.ID)
			if err != nil || old.process != nil {
				t.Fatalf("got %+v, %v", old, err)
			}
			if err := tx.stopOld(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if want := []string{"update " + c.ID + " no", "stop " + c.ID}; !slices.Equal(engine.did, want) {
				t.Errorf("did %q, want %q", engine.did, want)
			}
		})
	}
	if ended(t, other) {
		t.Error("another process was stopped")
	}
}

// Of several containers that ran, a rollback starts that of the old generation.
func TestRanBefore(t *testing.T) {
	from := generation.Generation{Number: 3, Services: []generation.Service{{Name: "a", Origin: 2}}}
	stray, own, dead := made("a", 1), made("a", 2), made("a", 7)
	dead.State = containers.StateRemoving
	tx := newTransaction(&node.Node{Engine: &wards{all: []containers.Container{stray, own, dead}}}, nil, from)
	tx.previous["a"] = []string{"a1", "removed", "a7", "a2"}
	got, err := tx.ranBefore(t.Context(), member{name: "a"})
	if err != nil || len(got) != 2 || got[0].ID != "a2" || got[1].ID != "a1" {
		t.Errorf("got %+v, %v", got, err)
	}
}
