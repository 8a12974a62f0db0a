package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// failing is an engine whose commands print a secret and fail.
type failing struct{ containers.Engine }

func (failing) Exec(_ context.Context, _ string, cmd containers.Exec) (int, error) {
	fmt.Fprintln(cmd.Stderr, "cannot connect to amqp://nova:hunt%2Fer22@h")
	return 1, nil
}

func (failing) Info(context.Context) (containers.Info, error) { return containers.Info{}, nil }

func TestStatusShowsNoSecrets(t *testing.T) {
	a := &Agent{&node.Node{Root: t.TempDir(), Host: host.Real(), Engine: failing{}}}
	if err := os.MkdirAll(a.node.Path("/etc/kollet"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		node.DefaultNodeFile: "profile: none\nsecrets: {rabbit: {file: /etc/kollet/rabbit}}\nservices: {one: {image: a:1}}\n",
		"/etc/kollet/rabbit": "hunt/er22\n",
	} {
		if err := os.WriteFile(a.node.Path(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := generation.Service{Name: "one", Healthcheck: []nodefile.Probe{{Exec: []string{"check"}, Timeout: time.Second}}}
	verdict, why := a.health(t.Context(), containers.Container{ID: "1", State: containers.StateRunning}, s)
	if verdict != "unhealthy" || !strings.HasSuffix(why, "amqp://nova:<secret rabbit>@h") {
		t.Errorf("%s: %s", verdict, why)
	}
	for state, want := range map[containers.State]string{
		containers.StateExited: "it is exited, with exit status 3; run `kollet upgrade`, which replaces it",
		containers.StatePaused: "it is paused; run `kollet upgrade`, which replaces it",
	} {
		if verdict, why := a.health(t.Context(), containers.Container{ID: "1", State: state, ExitCode: 3}, s); verdict != "unknown" || why != want {
			t.Errorf("%s: %s", verdict, why)
		}
	}
	// A probe may pass between two crashes, so none is tried.
	verdict, why = a.health(t.Context(), containers.Container{ID: "1", State: containers.StateRunning, Restarts: 7, Started: time.Now()}, s)
	if verdict != "restarting" || !strings.HasPrefix(why, "restarting (7 restarts, ") {
		t.Errorf("%s: %s", verdict, why)
	}
}

// Status says that Nova places no servers on the node.
func TestStatusOfADisabledService(t *testing.T) {
	n := node.Node{Root: t.TempDir(), Host: host.Real(), Engine: failing{}}
	if err := os.MkdirAll(n.State(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.State(), "disabled.json"), []byte(`{"format":1,"binary":"nova-compute","reason":"kollet: upgrade to generation 7","since":"2026-01-02T12:00:00Z"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(n).Status(t.Context())
	if err != nil || s.Disabled == nil || s.Disabled.Reason != "kollet: upgrade to generation 7" || s.Problem != "" {
		t.Errorf("%+v, %v", s, err)
	}
}

// An open journal is one of an interrupted upgrade, unless the upgrade still runs.
func TestStatusDuringAnUpgrade(t *testing.T) {
	n := node.Node{Root: t.TempDir(), Host: host.Real(), Engine: failing{}, Command: "upgrade"}
	unlock, err := n.Lock()
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Create(n.Journals(), journal.Record{Event: journal.Begin, From: 1, To: 2}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s, err := New(n).Status(t.Context())
	if err != nil || s.Running != fmt.Sprintf("kollet upgrade, process %d", os.Getpid()) || s.Interrupted {
		t.Errorf("during the upgrade: %+v, %v", s, err)
	}
	unlock()
	s, err = New(n).Status(t.Context())
	if err != nil || s.Running != "" || !s.Interrupted {
		t.Errorf("after it: %+v, %v", s, err)
	}
}

// lost is an engine that answers, but not what containers it has.
type lost struct {
	failing
	err error
}

func (l lost) List(context.Context, map[string]string) ([]containers.Container, error) {
	return nil, l.err
}

// A container is missing if the engine says so, and not if the engine does not say.
func TestStatusOfAMissingContainer(t *testing.T) {
	for err, want := range map[error]string{nil: "missing", errors.New("the shim does not answer"): "unknown"} {
		n := node.Node{Root: t.TempDir(), Host: host.Real(), Engine: lost{err: err}}
		g := generation.Generation{Number: 1, Services: []generation.Service{{Name: "one", Origin: 1}}}
		if err := errors.Join(n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(1)); err != nil {
			t.Fatal(err)
		}
		s, serr := New(n).Status(t.Context())
		if serr != nil {
			t.Fatal(serr)
		}
		if got := s.Services[0]; got.State != want || s.Healthy || err != nil && got.Why != err.Error() {
			t.Errorf("%v: %+v", err, got)
		}
	}
}

// cutOver is an engine in which the container of one in generation 1 has exited, and that of
// generation 2 runs if it is said to.
type cutOver struct {
	failing
	replaced bool
	down     error
}

func (c cutOver) Info(context.Context) (containers.Info, error) { return containers.Info{}, c.down }

func (c cutOver) List(_ context.Context, labels map[string]string) ([]containers.Container, error) {
	state := containers.StateExited
	if labels[node.LabelGeneration] == "2" && c.replaced {
		state = containers.StateRunning
	}
	return []containers.Container{{ID: "1", State: state, ExitCode: 143}}, nil
}

// After an interrupted upgrade, status says what runs instead of the services that it has cut
// over, and what recover will do; that also without the engine.
func TestStatusAfterAnInterruption(t *testing.T) {
	for _, c := range []struct {
		name                 string
		replaced, committed  bool
		interruption, reason string
	}{
		{"in a cutover", false, false, "an upgrade was interrupted; run `kollet recover`", "may be stopped until `kollet recover` undoes the upgrade"},
		{"after a cutover", true, false, "an upgrade was interrupted; run `kollet recover`", "the container of generation 2 runs until `kollet recover` undoes the upgrade"},
		{"after the commit", true, true, "the upgrade to generation 2 has committed, but was interrupted; `kollet recover` finishes it", "the container of generation 2 runs; `kollet recover` finishes the upgrade"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := node.Node{Root: t.TempDir(), Host: host.Real(), Engine: cutOver{replaced: c.replaced}}
			g := generation.Generation{Number: 1, Services: []generation.Service{{Name: "one", Origin: 1}}}
			if err := errors.Join(n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(1)); err != nil {
				t.Fatal(err)
			}
			j, err := journal.Create(n.Journals(), journal.Record{Event: journal.Begin, From: 1, To: 2}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if err := j.Append(journal.Record{Event: journal.Intent, Step: journal.Step{Kind: journal.CutOver, Services: []string{"one"}}}); err != nil {
				t.Fatal(err)
			}
			if c.committed {
				if err := j.Append(journal.Record{Event: journal.Commit}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := New(n).Status(t.Context())
			if err != nil || s.Healthy || s.Interruption() != c.interruption || s.Services[0].Why != c.reason {
				t.Errorf("%+v, %v", s, err)
			}
			unlock, err := n.Lock()
			if err != nil {
				t.Fatal(err)
			}
			s, err = New(n).Status(t.Context())
			if unlock(); err != nil || s.Services[0].Why != "the upgrade replaces it" {
				t.Errorf("while it runs: %+v, %v", s, err)
			}
			n.Engine = cutOver{down: errors.New("docker cannot be reached")}
			if _, err := New(n).Status(t.Context()); err == nil || err.Error() != "docker cannot be reached\n"+c.interruption {
				t.Errorf("without the engine: %v", err)
			}
		})
	}
}

// pausedEngine has one container, which is paused.
type pausedEngine struct{ failing }

func (pausedEngine) List(context.Context, map[string]string) ([]containers.Container, error) {
	return []containers.Container{{ID: "1", State: containers.StatePaused}}, nil
}

// Nothing can be run in a paused container, and the engine's error does not say what to do.
func TestExecInAPausedContainer(t *testing.T) {
	n := node.Node{Root: t.TempDir(), Host: host.Real(), Engine: pausedEngine{}}
	g := generation.Generation{Number: 1, Services: []generation.Service{{Name: "one", Origin: 1}}}
	if err := errors.Join(n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := New(n).Exec(t.Context(), "one", containers.Exec{Argv: []string{"true"}, Stderr: io.Discard}); err == nil || err.Error() != "one is paused; run `kollet upgrade`, which replaces it" {
		t.Errorf("got %v", err)
	}
}

// On a node that kolla-ansible runs, no upgrade is advised: it is refused.
func TestStatusOfANodeOfKolla(t *testing.T) {
	n := node.Node{Root: t.TempDir(), Name: "compute-1", Host: host.Real(), Engine: pausedEngine{}}
	services := []generation.Service{{Name: "one"}}
	err := n.Store().SetAdopted(generation.Adopted{
		Generation: generation.Generation{Services: services}, Containers: map[string]generation.Container{"one": {ID: "1", Name: "kolla_one"}},
	})
	g := generation.Generation{Number: 2, Services: services}
	if err := errors.Join(err, n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(2)); err != nil {
		t.Fatal(err)
	}
	const want = "kolla-ansible runs it: `docker unpause kolla_one` resumes it; `kollet adopt` then takes the node over"
	s, err := New(n).Status(t.Context())
	if err != nil || len(s.Services) != 1 || s.Services[0].Why != "it is paused; "+want {
		t.Errorf("%+v, %v", s.Services, err)
	}
	if _, err := New(n).Exec(t.Context(), "one", containers.Exec{Argv: []string{"true"}, Stderr: io.Discard}); err == nil || err.Error() != "one is paused; "+want {
		t.Errorf("got %v", err)
	}
}
