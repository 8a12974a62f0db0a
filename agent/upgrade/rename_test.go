package upgrade

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// renaming is an engine whose first updates fail.
type renaming struct {
	containers.Engine
	fails int
	name  string // that the last update gave
}

func (e *renaming) Update(_ context.Context, _, name string, _ containers.Restart) error {
	if e.fails--; e.fails >= 0 {
		return errors.New("the engine failed")
	}
	e.name = name
	return nil
}

// An update that fails for a moment must not leave a replaced container with the name that
// its successor needs. One that keeps failing blocks nothing.
func TestReplacedContainerLosesItsName(t *testing.T) {
	for fails, want := range map[int]string{0: "a-g1", 1: "a-g1", 2: "a-g1", 3: ""} {
		synctest.Test(t, func(t *testing.T) {
			e := &renaming{fails: fails}
			n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}
			tx := newTransaction(n, nil, generation.Generation{Number: 1})
			c := made("a", 1)
			c.State = containers.StateExited
			if err := tx.demote(t.Context(), c); err != nil || e.name != want {
				t.Errorf("after %d failures: name %q, want %q, %v", fails, e.name, want, err)
			}
		})
	}
}

// The same holds for the container that takes the name.
func TestServiceGetsItsName(t *testing.T) {
	for fails, want := range map[int]string{0: "a", 1: "a", 2: "a", 3: "a1"} {
		synctest.Test(t, func(t *testing.T) {
			e := &renaming{fails: fails}
			tx := newTransaction(&node.Node{Root: t.TempDir(), Engine: e}, nil, generation.Generation{Number: 1})
			if err := tx.name(t.Context(), made("a", 1), generation.Service{Name: "a"}); err != nil || e.name != want {
				t.Errorf("after %d failures: name %q, want %q, %v", fails, e.name, want, err)
			}
		})
	}
}

// silent is an engine that does not answer some requests.
type silent struct {
	containers.Engine
	updates int
}

func (e *silent) Update(context.Context, string, string, containers.Restart) error {
	e.updates++
	return containers.ErrUnreachable
}

func (e *silent) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{ID: "manual"}, nil
}

func (e *silent) Stop(context.Context, string, time.Duration) error { return nil }

func (e *silent) Remove(context.Context, string) error { return containers.ErrUnreachable }

// What follows a commit is tried again as a whole if the engine does not answer.
func TestEngineThatIsAwayAfterACommit(t *testing.T) {
	e := &silent{}
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}
	tx := newTransaction(n, nil, generation.Generation{Number: 1})
	if err := tx.name(t.Context(), made("a", 1), generation.Service{Name: "a"}); !errors.Is(err, containers.ErrUnreachable) || e.updates != 1 {
		t.Errorf("name: %d updates, %v", e.updates, err)
	}
	if err := tx.evict(t.Context(), generation.Service{Name: "a"}, "a1"); !errors.Is(err, containers.ErrUnreachable) {
		t.Errorf("evict: %v", err)
	}
}
