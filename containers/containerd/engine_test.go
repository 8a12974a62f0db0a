package containerd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/runtime/restart"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/test/machine"
)

// wantError checks that an error has one line and contains all words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not contain %q, or has several lines", err, w)
		}
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting: %s", what)
		}
	}
}

func TestUnreachable(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "containerd.sock")
	for _, address := range []string{"unix://" + dead, dead, dead + "?namespace=other", ""} {
		t.Setenv("CONTAINERD_ADDRESS", dead)
		engine, err := containerd.New(containerd.Config{Address: address, Root: t.TempDir()})
		must(t, err)
		_, err = engine.Info(t.Context())
		wantError(t, err, dead, "start it")
		if !errors.Is(err, containers.ErrUnreachable) {
			t.Errorf("%v is not ErrUnreachable", err)
		}
		engine.Close()
	}
	for _, address := range []string{"carrier pigeon", "tcp://127.0.0.1:1", "relative/path"} {
		_, err := containerd.New(containerd.Config{Address: address, Root: t.TempDir()})
		wantError(t, err, address, containerd.DefaultAddress)
	}
}

// unread sends a command's output to a pipe that is never read.
type unread string

func (u unread) Config() cio.Config { return cio.Config{Stdout: string(u)} }
func (u unread) Cancel()            {}
func (u unread) Wait()              {}
func (u unread) Close() error       { return nil }

// TestContainerd tests what only containerd has; raw is its own client.
func TestContainerd(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon)
	raw, err := client.New(daemon.Address, client.WithDefaultNamespace(strings.Trim(machine.CgroupParent(), "/")))
	must(t, err)
	defer raw.Close()
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	spec := containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host", Labels: map[string]string{"a": "1"},
		Entrypoint: []string{"/bin/sh", "-c", "trap 'exit 7' TERM; while true; do echo tick; sleep 0.1; done"}, Restart: containers.RestartUnlessStopped}
	create := func(t *testing.T) (string, client.Container) {
		t.Helper()
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		c, err := raw.LoadContainer(t.Context(), id)
		must(t, err)
		return id, c
	}
	discard := func(t *testing.T, id string) {
		t.Helper()
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, engine.Remove(t.Context(), id))
	}
	log := func(t *testing.T, id string) string {
		t.Helper()
		var out bytes.Buffer
		must(t, engine.Logs(t.Context(), id, containers.LogOptions{}, &out))
		return out.String()
	}

	t.Run("stop while the shim waits for a killed reader", func(t *testing.T) {
		// containerd's restart monitor would start the container again, because
		// the state of a silent shim is not "running".
		defer func(was containers.Restart) { spec.Restart = was }(spec.Restart)
		spec.Restart = containers.RestartNo
		id, c := create(t)
		must(t, engine.Start(t.Context(), id))
		task, err := c.Task(t.Context(), nil)
		must(t, err)
		oci, err := c.Spec(t.Context())
		must(t, err)
		pipe := filepath.Join(t.TempDir(), "nobody-reads")
		must(t, syscall.Mkfifo(pipe, 0o600))
		oci.Process.Args = []string{"/bin/true"}
		command, err := task.Exec(t.Context(), "abandoned", oci.Process, func(string) (cio.IO, error) { return unread(pipe), nil })
		must(t, err)
		defer discard(t, id)
		go func() { _ = command.Start(t.Context()) }() // blocks until the shim gives up
		info, err := engine.Info(t.Context())
		must(t, err)
		eventually(t, "the shim does not answer, or is newer", func() bool {
			status, err := task.Status(t.Context())
			return err == nil && (status.Status == client.Unknown || !strings.HasPrefix(info.Version, "1.6."))
		})
		now, err := engine.Inspect(t.Context(), id)
		must(t, err)
		if now.State != containers.StateRunning || now.PID == 0 {
			t.Errorf("it is %s with pid %d", now.State, now.PID)
		}
	})

	t.Run("changed manually", func(t *testing.T) {
		id, c := create(t)
		defer discard(t, id)
		_, err := c.SetLabels(t.Context(), map[string]string{"a": "2", "b": "3", restart.PolicyLabel: "always"})
		must(t, err)
		want := spec.Canonical()
		want.Labels, want.Restart = map[string]string{"a": "2", "b": "3"}, containers.RestartAlways
		got, err := engine.Inspect(t.Context(), "first")
		must(t, err)
		if !reflect.DeepEqual(got.Spec, want) {
			t.Errorf("labels read back %+v, want %+v", got.Spec, want)
		}
		changed, err := c.Spec(t.Context())
		must(t, err)
		changed.Process.Args = []string{"/bin/true"}
		changed.Root.Readonly = true
		changed.Process.NoNewPrivileges = true
		changed.Linux.Seccomp = nil
		limit, shares := int64(64<<20), uint64(512)
		changed.Linux.Resources.Memory = &specs.LinuxMemory{Limit: &limit}
		changed.Linux.Resources.CPU = &specs.LinuxCPU{Shares: &shares, Cpus: "0"}
		must(t, c.Update(t.Context(), client.UpdateContainerOpts(client.WithSpec(changed))))
		want.Entrypoint, want.ReadOnly = []string{"/bin/true"}, true
		want.Security = containers.Security{NoNewPrivileges: true, Seccomp: containers.Unconfined}
		want.Dimensions = containers.Dimensions{MemLimit: 64 << 20, CPUShares: 512, CpusetCpus: "0"}
		got, err = engine.Inspect(t.Context(), id)
		must(t, err)
		if !reflect.DeepEqual(got.Spec, want) {
			t.Errorf("configuration read back %+v, want %+v", got.Spec, want)
		}
	})

	t.Run("restart monitor cannot start a stopped container", func(t *testing.T) {
		id, c := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		labels, err := c.Labels(t.Context())
		must(t, err)
		must(t, engine.Stop(t.Context(), id, 0))
		// As a monitor that listed the containers before this one was stopped.
		uri, err := url.Parse(labels[restart.LogURILabel])
		must(t, err)
		if _, err := c.NewTask(t.Context(), cio.LogURI(uri)); err == nil {
			t.Error("a task was made")
		}
		must(t, engine.Start(t.Context(), id))
	})

	t.Run("log continues while containerd is stopped", func(t *testing.T) {
		id, _ := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		eventually(t, "the log has output", func() bool { return log(t, id) != "" })
		before, err := engine.Inspect(t.Context(), id)
		must(t, err)
		daemon.Kill()
		path, err := filepath.Glob(filepath.Join(filepath.Dir(machine.Dir(t, "x")), "kollet-*", "containers", id, "log"))
		must(t, err)
		if len(path) != 1 {
			t.Fatalf("logs: %v", path)
		}
		size := fileSize(t, path[0])
		eventually(t, "the log has more output", func() bool { return fileSize(t, path[0]) > size+200 })
		daemon.Start()
		after, err := engine.Inspect(t.Context(), id)
		must(t, err)
		if !reflect.DeepEqual(before, after) {
			t.Errorf("before %+v, after %+v", before, after)
		}
		if n := strings.Count(log(t, id), "tick\n"); n < 4 {
			t.Errorf("%d ticks", n)
		}
	})

	t.Run("container is restarted after its shim was killed", func(t *testing.T) {
		id, _ := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		first, err := engine.Inspect(t.Context(), id)
		must(t, err)
		must(t, syscall.Kill(parent(t, first.PID), syscall.SIGKILL))
		eventually(t, "it runs again", func() bool {
			c, err := engine.Inspect(t.Context(), id)
			must(t, err)
			return c.State == containers.StateRunning && c.PID != first.PID
		})
	})

	t.Run("container is restarting while the restart monitor starts it", func(t *testing.T) {
		id, c := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		setStatus := func(status client.ProcessStatus) {
			t.Helper()
			_, err := c.SetLabels(t.Context(), map[string]string{restart.StatusLabel: string(status)})
			must(t, err)
		}
		setStatus("") // the monitor itself would be too fast to be seen
		task, err := c.Task(t.Context(), nil)
		must(t, err)
		_, err = task.Delete(t.Context(), client.WithProcessKill)
		must(t, err)
		labels, err := c.Labels(t.Context())
		must(t, err)
		uri, err := url.Parse(labels[restart.LogURILabel])
		must(t, err)
		_, err = c.NewTask(t.Context(), cio.LogURI(uri))
		must(t, err)
		setStatus(client.Running)
		now, err := engine.Inspect(t.Context(), id)
		must(t, err)
		if now.State != containers.StateRestarting && now.State != containers.StateRunning {
			t.Errorf("it is %s with the new task", now.State)
		}
	})

	t.Run("start while the restart monitor starts it", func(t *testing.T) {
		defer func(was []string) { spec.Entrypoint = was }(spec.Entrypoint)
		spec.Entrypoint = []string{"/bin/false"}
		id, c := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		ctx, cancel := context.WithCancel(t.Context())
		var monitors sync.WaitGroup
		monitors.Go(func() { // as containerd's, but without its pauses
			for ctx.Err() == nil {
				startAsMonitor(ctx, c)
			}
		})
		for range 20 {
			if err := engine.Start(t.Context(), id); err != nil {
				t.Error(err)
			}
			now, err := engine.Inspect(t.Context(), id)
			must(t, err)
			if now.State.Stopped() {
				t.Errorf("it is %s, and nobody starts it again", now.State)
			}
		}
		cancel()
		monitors.Wait()
	})

	t.Run("log of a paused container is followed", func(t *testing.T) {
		// The restart monitor would start the container again, because it is not "running".
		defer func(was containers.Restart) { spec.Restart = was }(spec.Restart)
		spec.Restart = containers.RestartNo
		id, c := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		task, err := c.Task(t.Context(), nil)
		must(t, err)
		must(t, task.Pause(t.Context()))
		ended := make(chan error, 1)
		go func() {
			ended <- engine.Logs(t.Context(), id, containers.LogOptions{Follow: true}, io.Discard)
		}()
		select {
		case err := <-ended:
			t.Errorf("it ended: %v", err)
			ended <- nil
		case <-time.After(4 * time.Second): // longer than the end of an exited container's log is waited for
		}
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, <-ended)
	})

	t.Run("log of a container that is started again meanwhile", func(t *testing.T) {
		defer func(entrypoint []string, policy containers.Restart) {
			spec.Entrypoint, spec.Restart = entrypoint, policy
		}(spec.Entrypoint, spec.Restart)
		spec.Entrypoint, spec.Restart = []string{"/bin/sh", "-c", "[ -e /was ] && sleep 1000; : >/was; echo tick"}, containers.RestartNo
		id, _ := create(t)
		defer discard(t, id)
		must(t, engine.Start(t.Context(), id))
		eventually(t, "the container has exited", func() bool {
			now, err := engine.Inspect(t.Context(), id)
			must(t, err)
			return now.State == containers.StateExited
		})
		text := ""
		must(t, engine.Logs(t.Context(), id, containers.LogOptions{}, writes(func(p []byte) {
			text += string(p)
			if text == "tick\n" {
				must(t, engine.Start(t.Context(), id))
			}
		})))
		if text != "tick\n" {
			t.Errorf("the log is %q", text)
		}
	})

	t.Run("image pulled with another tool", func(t *testing.T) {
		record, err := raw.ImageService().Get(t.Context(), registry.Addr+"/conformance/base:1")
		must(t, err)
		record.Name, record.Labels = registry.Addr+"/conformance/theirs:1", nil
		_, err = raw.ImageService().Create(t.Context(), record)
		must(t, err)
		found, err := engine.Image(t.Context(), record.Name)
		must(t, err)
		if found.ID != base.ID || found.Size != base.Size || found.Digest != registry.Addr+"/conformance/theirs@"+record.Target.Digest.String() {
			t.Errorf("%+v", found)
		}
		_, err = engine.Image(t.Context(), found.Digest)
		must(t, err)
	})
}

// writes is called with what is written.
type writes func([]byte)

func (w writes) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// startAsMonitor starts a container as containerd's restart monitor does, which ignores
// errors and tries again later (runtime/restart/monitor).
func startAsMonitor(ctx context.Context, c client.Container) {
	labels, err := c.Labels(ctx)
	if err != nil || labels[restart.StatusLabel] != string(client.Running) {
		return
	}
	if task, err := c.Task(ctx, nil); err == nil {
		if status, err := task.Status(ctx); err != nil || status.Status == client.Running {
			return
		}
		_, _ = task.Delete(ctx, client.WithProcessKill)
	}
	uri, err := url.Parse(labels[restart.LogURILabel])
	if err != nil {
		return
	}
	if task, err := c.NewTask(ctx, cio.LogURI(uri)); err == nil {
		_ = task.Start(ctx)
	}
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

// parent returns the parent of a process, from /proc/PID/stat (proc(5)).
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	must(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	must(t, err)
	return ppid
}
