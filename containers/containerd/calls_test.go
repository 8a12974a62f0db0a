package containerd_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kollet/kollet/containers"
)

// Each call takes time, and is one more that may fail in the middle of an upgrade.
func TestCalls(t *testing.T) {
	daemon, _, base := withImage(t)
	engine := connect(t, daemon) // it does not know the image yet
	var mutex sync.Mutex
	var made []string
	must(t, engine.Watch(func(call string) {
		mutex.Lock()
		defer mutex.Unlock()
		made = append(made, call)
	}))
	spec := containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host", PID: "host", Labels: map[string]string{"is": "mine"},
		Entrypoint: []string{"/bin/sleep", "1000"}, Restart: containers.RestartUnlessStopped}
	var id string
	create := func() (err error) {
		id, err = engine.Create(t.Context(), spec)
		return err
	}
	list := func() error {
		_, err := engine.List(t.Context(), spec.Labels)
		return err
	}
	inspect := func(ref func() string) func() error {
		return func() error {
			_, err := engine.Inspect(t.Context(), ref())
			return err
		}
	}
	update := func(name string, restart containers.Restart) func() error {
		return func() error { return engine.Update(t.Context(), id, name, restart) }
	}
	exec := func() error {
		_, err := engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"/bin/true"}, Short: true})
		return err
	}
	ID := func() string { return id }
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"the first of an image", create, "Containers ListStream, Leases Create, Images List, Content Info, Content Read, Snapshots Prepare, Snapshots Mounts, Containers Create, Leases Delete"},
		{"another", func() error { spec.Name = "second"; return create() }, "Containers ListStream, Leases Create, Images List, Snapshots Prepare, Snapshots Mounts, Containers Create, Leases Delete"},
		{"start", func() error { return engine.Start(t.Context(), id) }, "Containers Get, Tasks Get, Snapshots Mounts, Tasks Create, Tasks Start, Containers Update"},
		{"start what runs", func() error { return engine.Start(t.Context(), id) }, "Containers Get, Tasks Get"},
		{"inspect by id", inspect(ID), "Containers Get, Tasks Get"},
		{"inspect by name", inspect(func() string { return "second" }), "Containers ListStream, Tasks Get"},
		{"list one that runs and one that does not", list, "Containers ListStream, Tasks List, Tasks Get"},
		{"run a command", exec, "Containers Get, Tasks Get, Tasks Exec, Tasks Start, Tasks DeleteProcess"},
		{"set the policy", update("second", containers.RestartNo), "Containers ListStream, Containers Update"},
		{"set name and policy", update("third", containers.RestartAlways), "Containers ListStream, Tasks Get, Containers Update"},
		{"stop", func() error { return engine.Stop(t.Context(), id, 0) }, "Containers Get, Containers Update, Tasks Get, Tasks Kill, Containers Update, Tasks Kill, Tasks Delete, Tasks Get"},
		{"stop what does not run", func() error { return engine.Stop(t.Context(), id, 0) }, "Containers Get, Tasks Get"},
		{"start again", func() error { return engine.Start(t.Context(), id) }, "Containers Get, Tasks Get, Snapshots Mounts, Tasks Create, Tasks Start, Containers Update"},
		{"stop again", func() error { return engine.Stop(t.Context(), id, 0) }, "Containers Get, Containers Update, Tasks Get, Tasks Kill, Containers Update, Tasks Kill, Tasks Delete, Tasks Get"},
		{"remove", func() error { return engine.Remove(t.Context(), id) }, "Containers Get, Tasks Get, Containers Delete, Snapshots Remove"},
	} {
		mutex.Lock()
		made = nil
		mutex.Unlock()
		must(t, step.do())
		mutex.Lock()
		got := slices.Clone(made)
		mutex.Unlock()
		got = slices.DeleteFunc(got, func(call string) bool {
			return call == "Tasks Wait" || // of another goroutine, sooner or later
				call == "Tasks Delete" && !strings.Contains(step.want, call) // the shim of the last task has not ended yet
		})
		if text := strings.Join(slices.Compact(got), ", "); text != step.want { // it may poll
			t.Errorf("%s: got %s\nwant %s", step.name, text, step.want)
		}
	}
}
