package containerd_test

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/test/machine"
)

// withImage starts containerd with an image.
func withImage(t *testing.T) (*machine.Containerd, *containerd.Engine, containers.Image) {
	t.Helper()
	daemon := machine.NewContainerd(t)
	engine := connect(t, daemon)
	base, err := engine.Pull(t.Context(), conformance.Push(t, machine.NewRegistry(t).Addr), nil)
	must(t, err)
	return daemon, engine, base
}

// connectRaw returns containerd's own client.
func connectRaw(t *testing.T, daemon *machine.Containerd) *client.Client {
	t.Helper()
	raw, err := client.New(daemon.Address, client.WithDefaultNamespace(strings.Trim(machine.CgroupParent(), "/")))
	must(t, err)
	return raw
}

// A client that is killed while containerd creates its task leaves a task that containerd does
// not show, and removes a second later.
func TestStartAfterKilledStart(t *testing.T) {
	daemon, engine, base := withImage(t)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host",
		Entrypoint: []string{"/bin/sleep", "1000"}, Restart: containers.RestartUnlessStopped})
	must(t, err)
	must(t, engine.Start(t.Context(), id))
	for n := range 8 {
		startAndDie(t, daemon, id, time.Duration(n)*15*time.Millisecond)
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
func startAndDie(t *testing.T, daemon *machine.Containerd, id string, after time.Duration) {
	t.Helper()
	raw := connectRaw(t, daemon)
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

// A client that is killed while containerd deletes its task leaves one that containerd does not
// show, and never removes.
func TestStartAfterKilledDelete(t *testing.T) {
	daemon, engine, base := withImage(t)
	raw := connectRaw(t, daemon)
	defer raw.Close()
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host",
		Entrypoint: []string{"/bin/sleep", "1000"}})
	must(t, err)
	must(t, engine.Start(t.Context(), id))

	deleteAndDie(t, raw, id)
	must(t, engine.Start(t.Context(), id))
	c, err := engine.Inspect(t.Context(), id)
	must(t, err)
	if c.State != containers.StateRunning {
		t.Fatalf("it is %s", c.State)
	}

	shim := deleteAndDie(t, raw, id)
	must(t, engine.Stop(t.Context(), id, 0))
	must(t, engine.Remove(t.Context(), id))
	eventually(t, "the shim ends", func() bool { return syscall.Kill(shim, 0) != nil })
}

// deleteAndDie ends the process of a running container, and disconnects while its shim deletes
// the task. It returns the shim's pid.
func deleteAndDie(t *testing.T, raw *client.Client, id string) int {
	t.Helper()
	c, err := raw.LoadContainer(t.Context(), id)
	must(t, err)
	task, err := c.Task(t.Context(), nil)
	must(t, err)
	shim := parent(t, int(task.Pid()))
	exited, err := task.Wait(t.Context())
	must(t, err)
	must(t, task.Kill(t.Context(), syscall.SIGKILL))
	<-exited
	eventually(t, "containerd shows no task", func() bool { // on a busy machine the shim may not get a request in time
		must(t, syscall.Kill(shim, syscall.SIGSTOP))
		dying, die := context.WithTimeout(namespaces.WithNamespace(t.Context(), raw.DefaultNamespace()), time.Second)
		defer die()
		if _, err = raw.TaskService().Delete(dying, &tasks.DeleteTaskRequest{ContainerID: id}); err == nil {
			t.Fatal("the task was deleted while its shim was stopped")
		}
		must(t, syscall.Kill(shim, syscall.SIGCONT))
		for range 100 {
			if _, err = c.Task(t.Context(), nil); errdefs.IsNotFound(err) {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	})
	must(t, syscall.Kill(shim, 0))
	return shim
}

// What runc writes into a bundle while containerd removes it stays, and is in the way of the next
// task. A bundle with a configuration may be in use.
func TestStartOverAbandonedBundle(t *testing.T) {
	daemon, engine, base := withImage(t)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host",
		Entrypoint: []string{"/bin/sleep", "1000"}})
	must(t, err)
	bundle := filepath.Join(filepath.Dir(daemon.Address), "state/io.containerd.runtime.v2.task", strings.Trim(machine.CgroupParent(), "/"), id)
	for _, dir := range []string{"dev", "etc"} {
		must(t, os.MkdirAll(filepath.Join(bundle, "rootfs", dir), 0o755))
	}
	must(t, engine.Start(t.Context(), id))
	must(t, engine.Stop(t.Context(), id, 0))

	must(t, os.MkdirAll(bundle, 0o755))
	config := filepath.Join(bundle, "config.json")
	must(t, os.WriteFile(config, []byte("{}"), 0o600))
	if err := engine.Start(t.Context(), id); err == nil || !strings.Contains(err.Error(), bundle) {
		t.Errorf("got %v, want that %s exists", err, bundle)
	}
	_, err = os.Stat(config)
	must(t, err)
	must(t, os.RemoveAll(bundle))
}

// kollet moves processes out of a container's cgroup, in which containerd looks for what it is
// to kill: one that ignores the stop signal, and one that waits to be started because its
// client was killed.
func TestStopOfProcessThatWasMoved(t *testing.T) {
	daemon, engine, base := withImage(t)
	raw := connectRaw(t, daemon)
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
	_, engine, base := withImage(t)
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
