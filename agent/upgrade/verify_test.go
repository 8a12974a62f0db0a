package upgrade

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
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
		time.Sleep(20 * time.Millisecond)
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
	n := &node.Node{Root: t.TempDir(), Host: host.Real(), Engine: engine}
	tx := &transaction{node: n, to: generation.Generation{Number: 2, Services: []generation.Service{service}}, watch: newWatch(n)}
	tx.watch.add(newTask{id: "c", service: service, process: p})
	err = tx.verify(t.Context())
	tx.watch.stop()
	if err == nil || !strings.HasPrefix(err.Error(), "nova-compute: process exited with exit status 4") {
		t.Errorf("%v", err)
	}
}
