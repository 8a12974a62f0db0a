package upgrade

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// wards is an engine with containers of service a, and one without labels.
type wards struct {
	containers.Engine
	all    []containers.Container
	manual containers.Container
	gone   bool // what is stopped is removed at once
	did    []string
}

func (e *wards) List(context.Context, map[string]string) ([]containers.Container, error) {
	return e.all, nil
}

func (e *wards) Inspect(_ context.Context, id string) (containers.Container, error) {
	for _, c := range append(e.all, e.manual) {
		if c.ID == id || c.Spec.Name == id {
			return c, nil
		}
	}
	return containers.Container{}, containers.ErrNotFound
}

func (e *wards) Update(_ context.Context, id, _ string, restart containers.Restart) error {
	e.did = append(e.did, fmt.Sprintf("update %s %s", id, restart))
	return nil
}

func (e *wards) Stop(_ context.Context, id string, _ time.Duration) error {
	e.did = append(e.did, "stop "+id)
	if e.gone {
		return containers.ErrNotFound
	}
	return nil
}

func (e *wards) Start(_ context.Context, id string) error {
	e.did = append(e.did, "start "+id)
	return nil
}

// A cutover stops the containers that run or that the engine starts again,
// and no others.
func TestRunning(t *testing.T) {
	for state, stops := range map[containers.State]bool{
		containers.StateCreated:    false,
		containers.StateRunning:    true,
		containers.StatePaused:     true,
		containers.StateRestarting: true,
		containers.StateExited:     false,
		containers.StateRemoving:   false,
		containers.StateOther:      true,
	} {
		t.Run(string(state), func(t *testing.T) {
			old, staged := made("a", 1), made("a", 2)
			old.State, staged.State = state, containers.StateRunning
			manual := containers.Container{ID: "manual", State: state, Spec: containers.Spec{Name: "a"}}
			tx := &transaction{node: &node.Node{Engine: &wards{all: []containers.Container{old, staged}, manual: manual}}, to: generation.Generation{Number: 2}}
			got, err := tx.running(t.Context(), group{{name: "a"}})
			want := []string{}
			if stops {
				want = []string{"a1", "manual"}
			}
			if err != nil || !slices.Equal(got["a"], want) {
				t.Errorf("got %q, %v, want %q", got["a"], err, want)
			}
		})
	}
}

// A container without a process that could be signalled is stopped by the engine: it
// may be paused, may be started again at any moment, or its number may be that of
// another process by now.
func TestStopOldWithoutProcess(t *testing.T) {
	n := newCutoverNode(t)
	other := n.start("/docker/other", loop)
	for _, c := range []containers.Container{
		{ID: "paused", State: containers.StatePaused, PID: other.Process.Pid},
		{ID: "restarting", State: containers.StateRestarting},
		{ID: "gone", State: containers.StateRunning, PID: other.Process.Pid},
		{ID: "never", State: containers.StateRunning},
	} {
		t.Run(c.ID, func(t *testing.T) {
			engine := &wards{all: []containers.Container{c}}
			n.node.Engine = engine
			tx := newTransaction(n.node, nil, generation.Generation{})
			old, err := tx.oldTask(t.Context(), member{name: "a", new: generation.Service{Name: "a"}}, c.ID)
			if err != nil || old.process != nil {
				t.Fatalf("got %+v, %v", old, err)
			}
			if err := tx.stopOld(t.Context(), old); err != nil {
				t.Fatal(err)
			}
			if want := []string{"update " + c.ID + " no", "stop " + c.ID}; !slices.Equal(engine.did, want) {
				t.Errorf("did %q, want %q", engine.did, want)
			}
		})
	}
	if ended(t, other) {
		t.Error("another process was stopped")
	}
}

// Of several containers that ran, a rollback starts that of the old generation.
func TestRanBefore(t *testing.T) {
	from := generation.Generation{Number: 3, Services: []generation.Service{{Name: "a", Origin: 2}}}
	stray, own, dead := made("a", 1), made("a", 2), made("a", 7)
	dead.State = containers.StateRemoving
	tx := newTransaction(&node.Node{Engine: &wards{all: []containers.Container{stray, own, dead}}}, nil, from)
	tx.previous["a"] = []string{"a1", "removed", "a7", "a2"}
	got, err := tx.ranBefore(t.Context(), member{name: "a"})
	if err != nil || len(got) != 2 || got[0].ID != "a2" || got[1].ID != "a1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A container that was created manually may be removed when it stops.
func TestRemovedWhenItStops(t *testing.T) {
	c := containers.Container{ID: "manual", State: containers.StateRestarting}
	n := newCutoverNode(t)
	n.node.Engine = &wards{all: []containers.Container{c}, gone: true}
	tx := newTransaction(n.node, nil, generation.Generation{})
	if err := tx.stopOld(t.Context(), oldTask{container: c}); err != nil {
		t.Errorf("stop: %v", err)
	}
	if err := tx.cleanUp(t.Context(), []oldTask{{container: c}}); err != nil {
		t.Errorf("clean up: %v", err)
	}
}

// A rollback starts what ran before. What the engine still takes for running has to have
// stopped for the engine first: else it is not started, or started and counted as a crash.
func TestStartAgain(t *testing.T) {
	n := newCutoverNode(t)
	runs, told, exited := n.start("/docker/runs", loop), n.start("/docker/told", loop), n.start("/docker/exited", loop)
	n.write(fmt.Sprintf("proc/%d/task/%[1]d/stat", exited.Process.Pid), fmt.Sprintf("%d (sh) Z 1 3", exited.Process.Pid)+strings.Repeat(" 0", 20))
	for _, c := range []struct {
		container containers.Container
		stops     bool
	}{
		{containers.Container{ID: "runs", State: containers.StateRunning, PID: runs.Process.Pid}, false},
		{containers.Container{ID: "told", State: containers.StateRunning, PID: told.Process.Pid}, true},
		{containers.Container{ID: "exited", State: containers.StateRunning, PID: exited.Process.Pid}, true},
		{containers.Container{ID: "gone", State: containers.StateRunning, PID: 1 << 23}, true},
		{containers.Container{ID: "reused", State: containers.StateRunning, PID: runs.Process.Pid}, true},
		{containers.Container{ID: "stopped", State: containers.StateExited}, false},
		{containers.Container{ID: "paused", State: containers.StatePaused, PID: runs.Process.Pid}, true},
	} {
		id := c.container.ID
		engine := &wards{all: []containers.Container{c.container}}
		n.node.Engine = engine
		tx := newTransaction(n.node, nil, generation.Generation{})
		if err := tx.startAgain(t.Context(), c.container, member{name: "a"}, id == "told"); err != nil {
			t.Errorf("%s: %v", id, err)
		}
		want := []string{"update " + id + " always", "start " + id}
		if c.stops {
			want = slices.Insert(want, 0, "stop "+id)
		}
		if !slices.Equal(engine.did, want) {
			t.Errorf("%s: did %q, want %q", id, engine.did, want)
		}
	}
}

// After kollet was killed in a cutover, the last service that runs may have been told to
// stop, and no other one: each is told after the next one has exited. A service that the
// engine would restart was not told.
func TestToldToStop(t *testing.T) {
	n := newCutoverNode(t)
	for name, c := range map[string]struct {
		libvirt, compute containers.Restart // "": it has exited
		live             bool               // the cutover of this process
		want             string
	}{
		"both were about to be told": {containers.RestartNo, containers.RestartNo, false, "compute"},
		"one has exited":             {containers.RestartNo, "", false, "libvirt"},
		"both have exited":           {"", "", false, ""},
		"none was told":              {containers.RestartNo, containers.RestartAlways, false, ""},
		"one was started again":      {containers.RestartAlways, "", false, ""},
		"not a recovery":             {containers.RestartNo, containers.RestartNo, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tx := newTransaction(n.node, nil, generation.Generation{})
			tx.recovering = !c.live
			engine := &wards{}
			n.node.Engine = engine
			for service, restart := range map[string]containers.Restart{"libvirt": c.libvirt, "compute": c.compute} {
				found := containers.Container{ID: service, State: containers.StateExited, Spec: containers.Spec{Restart: restart}}
				if restart != "" {
					found.State, found.PID = containers.StateRunning, n.start("/docker/"+service, loop).Process.Pid
				}
				engine.all = append(engine.all, found)
				tx.previous[service] = []string{"removed", service}
			}
			got, err := tx.toldToStop(t.Context(), group{{name: "libvirt"}, {name: "compute"}})
			if got != c.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
}

// fleeting is an engine whose container is removed after it was listed.
type fleeting struct{ wards }

func (e *fleeting) Inspect(context.Context, string) (containers.Container, error) {
	return containers.Container{}, containers.ErrNotFound
}

// A container that is removed while its guests are looked for has none.
func TestProtectGuestsOfARemovedContainer(t *testing.T) {
	old := made("a", 1)
	old.State = containers.StateRunning
	n := newCutoverNode(t)
	n.node.Engine = &fleeting{wards{all: []containers.Container{old}}}
	tx := newTransaction(n.node, nil, generation.Generation{})
	tx.to.Number = 2
	if err := tx.protectGuests(t.Context(), group{{name: "a", old: generation.Service{Name: "a", Guests: &nodefile.Guests{}}}}); err != nil {
		t.Error(err)
	}
}

// What is left in a container is gone when its successor starts, however long that takes.
func TestKillLeftWaits(t *testing.T) {
	n := newCutoverNode(t)
	first, left := n.start("/docker/abc", loop), n.start("/docker/abc", loop)
	n.list("/docker/abc", left)
	task := n.task(generation.Service{}, first)
	release := holdExit(t, left.Process.Pid)
	killed := make(chan error, 1)
	go func() { killed <- killLeft(n.node, task.cgroup) }()
	select {
	case err := <-killed:
		release()
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(2 * time.Second): // it once waited for one
	}
	release()
	if err := <-killed; err != nil || !ended(t, left) {
		t.Errorf("%v", err)
	}
}

// holdExit keeps a process that is killed from exiting until it is released: a tracer may
// look at it first (PTRACE_O_TRACEEXIT, ptrace(2)).
func holdExit(t *testing.T, pid int) (release func()) {
	t.Helper()
	held, released, done := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // which is the tracer
		defer runtime.UnlockOSThread()
		_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
		if errno != 0 {
			held <- errno
			return
		}
		held <- nil
		<-released
		var status unix.WaitStatus
		_, _ = unix.Wait4(pid, &status, unix.WALL, nil)
		_ = unix.PtraceDetach(pid)
	}()
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	return func() { close(released); <-done }
}

// Neither a cutover nor what follows a commit ends guests in a container that an operator
// created under a service's name, whatever they were started with.
func TestGuestsInAManualContainer(t *testing.T) {
	for name, generation := range map[string]int{"started with nothing of kollet's": 0, "started with the gate of a generation": 1} {
		t.Run(name, func(t *testing.T) { guestsInAManualContainer(t, generation) })
	}
}

func guestsInAManualContainer(t *testing.T, number int) {
	n := newCutoverNode(t)
	first, qemu := n.start("/docker/manual", loop), n.start("/docker/manual", loop)
	n.list("/docker/manual", first, qemu)
	n.guestOf(qemu.Process.Pid, 1, "vm", "uuid-vm")
	if number == 0 {
		n.write(fmt.Sprintf("proc/%d/mountinfo", qemu.Process.Pid), "")
	}
	engine := &wards{manual: containers.Container{ID: "manual", State: containers.StateRunning, PID: first.Process.Pid, Spec: containers.Spec{Name: "a"}}}
	n.node.Engine = engine
	tx := newTransaction(n.node, nil, generation.Generation{Number: 1, Services: []generation.Service{{Name: "a", Origin: 1}}})
	_, err := tx.running(t.Context(), group{{name: "a"}})
	for _, err := range []error{err, tx.checkManual(t.Context(), nil)} {
		if err == nil || !strings.Contains(err.Error(), "guest vm") || !strings.Contains(err.Error(), "migrate the guest or shut it down") {
			t.Errorf("it may be stopped: %v", err)
		}
	}
	if err := tx.evict(t.Context(), generation.Service{Name: "a", Guests: &nodefile.Guests{}}, "a2"); err != nil {
		t.Error(err)
	}
	if want := []string{"update manual "}; !slices.Equal(engine.did, want) || len(n.notes) != 1 || !strings.Contains(n.notes[0], "is a-manual now, and still runs, because guest vm") {
		t.Errorf("did %q, want %q; said %q", engine.did, want, n.notes)
	}
}
