package containerd_test

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/containerd/v2/pkg/cio"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/test/machine"
)

// A client that is killed while containerd creates its task leaves a task that containerd does
// not show, and removes a second later.
func TestStartAfterKilledStart(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon)
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host",
		Entrypoint: []string{"/bin/sleep", "1000"}, Restart: containers.RestartUnlessStopped})
	must(t, err)
	must(t, engine.Start(t.Context(), id))
	for n := range 8 {
		startAndDie(t, daemon.Address, id, time.Duration(n)*15*time.Millisecond)
		if err := engine.Start(t.Context(), id); err != nil {
			t.Errorf("killed after %d ms: %v", n*15, err)
		}
		c, err := engine.Inspect(t.Context(), id)
		must(t, err)
		if c.State != containers.StateRunning || c.Restarts != 0 {
			t.Fatalf("killed after %d ms: it is %s, with %d restarts", n*15, c.State, c.Restarts)
		}
	}
	must(t, engine.Stop(t.Context(), id, 0))
	must(t, engine.Remove(t.Context(), id))
}

// startAndDie starts a running container again, and disconnects meanwhile.
func startAndDie(t *testing.T, address, id string, after time.Duration) {
	t.Helper()
	raw, err := client.New(address, client.WithDefaultNamespace(strings.Trim(machine.CgroupParent(), "/")))
	must(t, err)
	c, err := raw.LoadContainer(t.Context(), id)
	must(t, err)
	labels, err := c.Labels(t.Context())
	must(t, err)
	uri, err := url.Parse(labels[restart.LogURILabel])
	must(t, err)
	_, err = c.SetLabels(t.Context(), map[string]string{restart.StatusLabel: ""}) // the monitor would start it
	must(t, err)
	task, err := c.Task(t.Context(), nil)
	must(t, err)
	_, err = task.Delete(t.Context(), client.WithProcessKill)
	must(t, err)
	ended := make(chan struct{})
	go func() {
		_, _ = c.NewTask(t.Context(), cio.LogURI(uri))
		close(ended)
	}()
	time.Sleep(after)
	must(t, raw.Close())
	<-ended
}

// kollet moves processes out of a container's cgroup, in which containerd looks for what it is
// to kill: one that ignores the stop signal, and one that waits to be started because its
// client was killed.
func TestStopOfProcessThatWasMoved(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon)
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	raw, err := client.New(daemon.Address, client.WithDefaultNamespace(strings.Trim(machine.CgroupParent(), "/")))
	must(t, err)
	defer raw.Close()
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host", PID: "host",
		Entrypoint: []string{"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}})
	must(t, err)
	for name, started := range map[string]bool{"it ignores the signal": true, "it waits": false} {
		t.Run(name, func(t *testing.T) {
			c, err := raw.LoadContainer(t.Context(), id)
			must(t, err)
			task, err := c.NewTask(t.Context(), cio.NullIO)
			must(t, err)
			if started {
				must(t, task.Start(t.Context()))
				time.Sleep(200 * time.Millisecond) // until the shell has set its trap
			}
			groups := machine.NewCgroups(t)
			for hierarchy := range groups.Of(int(task.Pid())) {
				must(t, groups.Join(int(task.Pid()), hierarchy, machine.CgroupParent()))
			}
			must(t, engine.Stop(t.Context(), id, 0))
		})
	}
	must(t, engine.Remove(t.Context(), id))
}

// What a service started may hold the pipes of its output, so the container's log writer, which
// starts before a task, also outlives one whose shim was killed.
func TestStopAfterKilledShim(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon)
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host", PID: "host",
		Entrypoint: []string{"/bin/sh", "-c", "sleep 1000 & echo $!; wait"}})
	must(t, err)
	must(t, engine.Start(t.Context(), id))
	var left int
	eventually(t, "the service starts a process", func() bool {
		var out bytes.Buffer
		must(t, engine.Logs(t.Context(), id, containers.LogOptions{}, &out))
		n, _ := fmt.Sscan(out.String(), &left)
		return n == 1
	})
	defer func() { _ = syscall.Kill(left, syscall.SIGKILL) }()
	groups := machine.NewCgroups(t)
	for hierarchy := range groups.Of(left) {
		must(t, groups.Join(left, hierarchy, machine.CgroupParent()))
	}
	c, err := engine.Inspect(t.Context(), id)
	must(t, err)
	must(t, syscall.Kill(parent(t, c.PID), syscall.SIGKILL))
	must(t, engine.Stop(t.Context(), id, 0))
	must(t, engine.Remove(t.Context(), id))
	must(t, syscall.Kill(left, 0))
}
