package upgrade

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// restarted is an engine with a stopped container, which is away for some of its calls.
type restarted struct {
	containers.Engine
	container containers.Container
	away      map[int]bool // by the call's number, from 1
	calls     int
}

func (e *restarted) answer(id string) error {
	if e.calls++; e.away[e.calls] {
		return containers.ErrUnreachable
	}
	if id != e.container.ID {
		return fmt.Errorf("container %q: invalid container name or ID", id)
	}
	return nil
}

func (e *restarted) Inspect(_ context.Context, id string) (containers.Container, error) {
	if err := e.answer(id); err != nil {
		return containers.Container{}, err
	}
	return e.container, nil
}

func (e *restarted) Update(_ context.Context, id, _ string, _ containers.Restart) error {
	return e.answer(id)
}

func (e *restarted) Start(_ context.Context, id string) error {
	err := e.answer(id)
	if err == nil {
		e.container.State = containers.StateRunning
	}
	return err
}

// Stop is called if the last try started the container, which has no process here.
func (e *restarted) Stop(_ context.Context, id string, _ time.Duration) error {
	err := e.answer(id)
	if err == nil {
		e.container.State = containers.StateExited
	}
	return err
}

// A rollback starts a service again although the engine is away for any two of its calls.
func TestReviveWhileEngineIsAway(t *testing.T) {
	for first := 2; first < 5; first++ { // the first call's failure fails the undo, which is tried again
		for second := first; second < 8; second++ {
			synctest.Test(t, func(t *testing.T) {
				c := made("a", 1)
				c.State = containers.StateExited
				e := &restarted{container: c, away: map[int]bool{first: true, second: true}}
				n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: e}
				tx := newTransaction(n, nil, generation.Generation{Number: 1})
				tx.previous["a"] = []string{c.ID}
				err := tx.revive(t.Context(), member{name: "a", old: generation.Service{Name: "a"}}, false)
				if err != nil || e.container.State != containers.StateRunning {
					t.Errorf("away at calls %d and %d: %s, %v", first, second, e.container.State, err)
				}
			})
		}
	}
}

// stuck is an engine that never finishes the start of a container.
type stuck struct {
	restarted
	starts int
	deaf   bool // it does not answer at all
}

func (e *stuck) Start(context.Context, string) error {
	e.starts++
	return fmt.Errorf("starting container a: %w", context.DeadlineExceeded)
}

func (e *stuck) Info(context.Context) (containers.Info, error) {
	if e.deaf {
		return containers.Info{}, containers.ErrUnreachable
	}
	return containers.Info{}, nil
}

// A rollback continues with the other services if the start of one hangs, and stops if the engine
// does.
func TestReviveOfContainerThatHangs(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := made("a", 1)
			c.State = containers.StateExited
			var notes []string
			e := &stuck{restarted: restarted{container: c}, deaf: deaf}
			n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: e, Report: func(e node.Event) { notes = append(notes, e.Text) }}
			tx := newTransaction(n, nil, generation.Generation{Number: 1})
			tx.previous["a"] = []string{c.ID}
			err := tx.revive(t.Context(), member{name: "a", old: generation.Service{Name: "a"}}, false)
			if deaf != (err != nil) || deaf != (len(notes) == 0) {
				t.Errorf("the engine is deaf: %v; got %v, notes %q", deaf, err, notes)
			}
			if !deaf && e.starts != mostHangs {
				t.Errorf("%d starts", e.starts)
			}
		})
	}
}
