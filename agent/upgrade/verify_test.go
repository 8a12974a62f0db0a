package upgrade

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// quitter is an engine with one container, whose process is about to end: the
// first probe passes, the second fails, and only then does the process end.
type quitter struct {
	containers.Engine
	process *exec.Cmd
	probes  int
	ended   chan struct{}
}

func (e *quitter) List(context.Context, map[string]string) ([]containers.Container, error) {
	return []containers.Container{{ID: "c", PID: e.process.Process.Pid, State: containers.StateRunning}}, nil
}

func (e *quitter) Exec(context.Context, string, containers.Exec) (int, error) {
	if e.probes++; e.probes == 1 {
		return 0, nil
	}
	go func() {
		time.Sleep(500 * time.Millisecond) // the machine is busy
		_ = e.process.Process.Kill()
		_ = e.process.Wait()
		close(e.ended)
	}()
	return 0, errors.New("cannot exec in a stopped container")
}

func (e *quitter) Inspect(context.Context, string) (containers.Container, error) {
	<-e.ended
	return containers.Container{ID: "c", State: containers.StateExited, ExitCode: 4}, nil
}

func (e *quitter) Logs(context.Context, string, containers.LogOptions, io.Writer) error {
	return nil
}

// A probe may fail before its service's process is seen to end. What is said is
// that it ended, and how.
func TestEndedService(t *testing.T) {
	engine := &quitter{process: exec.Command("sleep", "60"), ended: make(chan struct{})}
	if err := engine.process.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := host.Open(engine.process.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	service := generation.Service{Name: "nova-compute", Origin: 2, Healthcheck: []nodefile.Probe{
		{Exec: []string{"true"}, StartPeriod: time.Minute, Timeout: time.Minute, Interval: time.Millisecond, Stable: time.Minute},
	}}
	n := &node.Node{Root: t.TempDir(), Host: idle(t), Engine: engine}
	tx := &transaction{node: n, to: generation.Generation{Number: 2, Services: []generation.Service{service}}, watch: newWatch(n)}
	tx.watch.add(newTask{id: "c", service: service, process: p})
	err = tx.verify(t.Context())
	tx.watch.stop()
	if err == nil || !strings.HasPrefix(err.Error(), "nova-compute: process exited with exit status 4") {
		t.Errorf("%v", err)
	}
}

// slowEngine is an engine that notices the exit of a container after a time.
type slowEngine struct {
	containers.Engine
	notices time.Time
}

func (e slowEngine) Inspect(context.Context, string) (containers.Container, error) {
	if time.Now().Before(e.notices) {
		return containers.Container{State: containers.StateRunning}, nil
	}
	return containers.Container{State: containers.StateExited, ExitCode: 4}, nil
}

// The exit status is worth waiting for an engine that is busy.
func TestExitCode(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		after time.Duration
		code  int
		ended bool
	}{
		"noticed":        {errProcessExited, 0, 4, true},
		"noticed late":   {errProcessExited, 5 * time.Second, 4, true},
		"never noticed":  {errProcessExited, time.Hour, 0, false},
		"no exit":        {errors.New("not healthy"), time.Hour, 0, false},
		"another reason": {errors.New("not healthy"), 0, 4, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := &node.Node{Host: idle(t), Engine: slowEngine{notices: time.Now().Add(c.after)}}
				if code, ended := exitCode(t.Context(), n, failure{"a", "1", c.err}); code != c.code || ended != c.ended {
					t.Errorf("got %d, %v", code, ended)
				}
			})
		})
	}
}
