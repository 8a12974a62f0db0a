package upgrade

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// An upgrade that was refused, or that found nothing to do, does not make the generation
// healthy on which the one before got stuck.
func TestEndedStuck(t *testing.T) {
	for name, c := range map[string]struct {
		outcomes []journal.Outcome // "": interrupted
		want     int               // the upgrade whose records are returned
	}{
		"no upgrade":            {nil, 0},
		"stuck":                 {[]journal.Outcome{journal.Committed, journal.Stuck}, 2},
		"refused since":         {[]journal.Outcome{journal.Stuck, journal.Discarded, journal.Deferred, journal.Unchanged}, 1},
		"upgraded since":        {[]journal.Outcome{journal.Stuck, journal.Committed, journal.Discarded}, 0},
		"rolled back since":     {[]journal.Outcome{journal.Stuck, journal.RolledBack}, 0},
		"interrupted since":     {[]journal.Outcome{journal.Stuck, ""}, 0},
		"never, though refused": {[]journal.Outcome{journal.Committed, journal.Discarded}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node.Node{Root: t.TempDir(), Host: idle(t)}
			for i, outcome := range c.outcomes {
				j, err := journal.Create(n.Journals(), journal.Record{To: i + 1}, n.Host.Now)
				if err == nil && outcome != "" {
					err = j.Append(journal.Record{Event: journal.End, Outcome: outcome})
				}
				if err != nil {
					t.Fatal(err)
				}
				j.Close()
			}
			records, err := endedStuck(n)
			got := 0
			if len(records) > 0 {
				got = records[0].To
			}
			if err != nil || got != c.want {
				t.Errorf("upgrade %d, %v, want %d", got, err, c.want)
			}
		})
	}
}

// fleet is an engine with containers that it starts and stops.
type fleet struct {
	containers.Engine
	all  []containers.Container
	done []string
}

func (f *fleet) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	return slices.DeleteFunc(slices.Clone(f.all), func(c containers.Container) bool {
		for k, v := range labels {
			if k != node.LabelNode && c.Spec.Labels[k] != v {
				return true
			}
		}
		return false
	}), nil
}

func (f *fleet) Inspect(_ context.Context, id string) (containers.Container, error) {
	for _, c := range f.all {
		if c.ID == id {
			return c, nil
		}
	}
	return containers.Container{}, containers.ErrNotFound
}

func (f *fleet) Update(context.Context, string, string, containers.Restart) error { return nil }

func (f *fleet) Start(_ context.Context, id string) error {
	f.set("start", id, containers.StateRunning)
	return nil
}

func (f *fleet) Stop(_ context.Context, id string, _ time.Duration) error {
	f.set("stop", id, containers.StateExited)
	return nil
}

func (f *fleet) set(what, id string, state containers.State) {
	f.done = append(f.done, what+" "+id)
	for i := range f.all {
		if f.all[i].ID == id {
			f.all[i].State = state
		}
	}
}

// A recovery on another engine called a rollback done, and had stopped nothing. Recovery on the
// right one never has two containers of a service run.
func TestStartedAlone(t *testing.T) {
	for name, c := range map[string]struct {
		running []string // of a2, a3, b2, c3; the upgrade from 2 to 3 was rolled back
		done    string
		note    string // part of one
	}{
		"stopped":                       {[]string{"b2"}, "start a2", ""},
		"its successor runs":            {[]string{"b2", "a3"}, "stop a3, start a2", "stopped container a3"},
		"both run":                      {[]string{"b2", "a2", "a3"}, "stop a3", "stopped container a3"},
		"what the upgrade added runs":   {[]string{"b2", "c3"}, "stop c3, start a2", "stopped container c3"},
		"an earlier one was started":    {[]string{"b2", "a1"}, "", "cannot be started again: another container of it runs (a1); stop that"},
		"what was not cut over exited":  {[]string{"a2"}, "", ""},
		"all run that should, and only": {[]string{"a2", "b2"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []string
			n := &node.Node{Root: t.TempDir(), Host: idle(t), Report: func(e node.Event) { notes = append(notes, e.Text) }}
			f := &fleet{}
			for _, m := range []containers.Container{made("a", 1), made("a", 2), made("a", 3), made("b", 2), made("c", 3)} {
				m.State = containers.StateExited
				if slices.Contains(c.running, m.ID) {
					m.State = containers.StateRunning
				}
				f.all = append(f.all, m)
			}
			n.Engine = f
			services := []generation.Service{{Name: "a", Origin: 2}, {Name: "b", Origin: 2}}
			current := generation.Generation{Number: 2, Services: services}
			if err := n.Store().Write(current, nil, func(string) error { return nil }); err != nil {
				t.Fatal(err)
			}
			if err := n.Store().SetCurrent(2); err != nil {
				t.Fatal(err)
			}
			cutOver := started(journal.CutOver, "a")
			cutOver.Previous = map[string][]string{"a": {"a2"}}
			records := []journal.Record{{From: 2, To: 3}, cutOver, outcome(journal.Stuck)}
			_ = stillUnhealthy(t.Context(), n, records)
			if got := strings.Join(f.done, ", "); got != c.done {
				t.Errorf("it did %q, want %q", got, c.done)
			}
			if all := strings.Join(notes, "\n"); !strings.Contains(all, c.note) {
				t.Errorf("notes %q", all)
			}
		})
	}
}
