package upgrade

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// An error that needs an operator says which services do not run, whichever containers do.
func TestWithStopped(t *testing.T) {
	in := func(state containers.State, service string, number, status int) containers.Container {
		c := made(service, number)
		c.State, c.ExitCode = state, status
		return c
	}
	engine := &shelf{all: []containers.Container{
		in(containers.StateRunning, "runs", 1, 0),
		in(containers.StateExited, "ended", 1, 137), in(containers.StateRunning, "ended", 2, 0), // which waits at its gate
		in(containers.StateExited, "new", 1, 0), in(containers.StateRunning, "new", 2, 0),
		in(containers.StatePaused, "frozen", 1, 0),
	}}
	n := &node.Node{Root: t.TempDir(), Engine: engine}
	g := generation.Generation{Number: 1}
	for _, name := range []string{"runs", "ended", "new", "frozen", "gone"} {
		g.Services = append(g.Services, generation.Service{Name: name, Origin: 1})
	}
	if err := errors.Join(n.Store().Write(g, nil, func(string) error { return nil }), n.Store().SetCurrent(1), gate.Make(n.Store().Gate(2, "new"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(n.Store().Gate(2, "new"), gate.FileOpen), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	plain := errors.New("failed")
	if err := withStopped(t.Context(), n, plain); err != plain {
		t.Errorf("of any error: %v", err)
	}
	err := withStopped(t.Context(), n, fmt.Errorf("recover: %w", node.NeedsOperator{Err: plain}))
	want := "recover: failed\nservices that do not run: ended (exited, with exit status 137), frozen (paused), gone (it has no container)"
	if _, operator := errors.AsType[node.NeedsOperator](err); !operator || err.Error() != want {
		t.Errorf("got %v", err)
	}
	engine.all = nil
	if err := withStopped(t.Context(), &node.Node{Root: t.TempDir(), Engine: engine}, node.NeedsOperator{Err: plain}); err.Error() != "failed" {
		t.Errorf("without a generation: %v", err)
	}
}
