package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// A service that an init or a shell has started may run on without it. What it starts while
// kollet looks at what is left keeps running, if it is a guest.
func TestGuestOfAServiceThatOutlivesItsInit(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  string // of the guest when it is seen first
		guest int    // the look after which it is one
	}{
		{"a guest", "libvirtd\x00", 2},
		{"one that executes its program", "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCutoverNode(t)
			first, service, born := n.start("/docker/abc", loop), n.start("/docker/abc", loop), n.start("/docker/abc", loop)
			n.list("/docker/abc", first, service)
			arguments := func(pid int, args string) { n.write(fmt.Sprintf("proc/%d/cmdline", pid), args) }
			arguments(first.Process.Pid, "init\x00libvirtd\x00")
			arguments(service.Process.Pid, "libvirtd\x00")
			looks := 0
			n.node.Host.SocketPeers = func(int) (map[uint64]uint64, error) {
				looks++ // first by the sorter, when it is made, then whenever it sorts
				if looks == 2 {
					n.list("/docker/abc", first, service, born)
					arguments(born.Process.Pid, c.args)
				}
				if looks == c.guest {
					n.guest(born.Process.Pid, "a")
				}
				if looks == c.guest+1 { // as if it were moved, which has no effect here
					n.write(fmt.Sprintf("proc/%d/task/%[1]d/cgroup", born.Process.Pid), "2:pids:/kollet-guests\n")
				}
				return map[uint64]uint64{}, nil
			}
			task := n.task(generation.Service{}, first)
			sorter, err := n.node.GuestFinder().Sorter(task.cgroup, first.Process.Pid, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := endLeft(t.Context(), n.node, task.cgroup, "abc", sorter); err != nil {
				t.Error(err)
			}
			if !ended(t, service) {
				t.Error("the service still runs")
			}
			if ended(t, born) {
				t.Error("the guest is lost")
			}
		})
	}
}

// A service behind an init that does not stop in time ends with the init, whatever it has executed. Its
// guests and what serves them keep running.
func TestStopBehindInit(t *testing.T) {
	for name, at := range map[string]string{"where the init is": "/kollet-guests-abc", "where an earlier kollet moved it": "/kollet-guests"} {
		t.Run(name, func(t *testing.T) {
			n := newCutoverNode(t)
			stubborn := "trap '' TERM; " + loop
			first, service := n.start("/kollet-guests-abc", stubborn), n.start(at, stubborn)
			helper, vm := n.start("/kollet-guests", loop), n.start("/kollet-guests", loop)
			n.list("/kollet-guests-abc", first)
			if at == "/kollet-guests-abc" {
				n.list(at, first, service)
			}
			below := func(p, parent *exec.Cmd, args string) {
				pid := p.Process.Pid
				n.write(fmt.Sprintf("proc/%d/cmdline", pid), args)
				n.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (sh) S %d 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", pid, parent.Process.Pid, 1000+pid))
				n.link(fmt.Sprintf("proc/%d/fd/3", pid), "socket:[1]")
			}
			n.guest(vm.Process.Pid, "a")
			n.write(fmt.Sprintf("proc/%d/cmdline", first.Process.Pid), "dumb-init\x00--single-child\x00--\x00kolla_start\x00")
			below(service, first, "/usr/sbin/libvirtd\x00--listen\x00")
			below(helper, service, "/usr/sbin/virtlogd\x00")
			n.link(fmt.Sprintf("proc/%d/fd/3", vm.Process.Pid), "socket:[1]")
			task := n.task(generation.Service{Name: "nova-libvirt", StopSignal: "SIGTERM", StopGracePeriod: 30 * time.Millisecond}, first)
			task.container.ID = "abc"
			var err error
			if task.sorter, err = n.node.GuestFinder().Sorter(task.cgroup, first.Process.Pid, nil); err != nil {
				t.Fatal(err)
			}
			if err := stopFast(t.Context(), n.node, task); err != nil {
				t.Error(err)
			}
			if !ended(t, first) || !ended(t, service) || ended(t, helper) || ended(t, vm) {
				t.Errorf("ended: the init %v, the service %v, a helper %v, the guest %v", ended(t, first), ended(t, service), ended(t, helper), ended(t, vm))
			}
		})
	}
}

// If kollet is killed when the first process of a container has just exited, a service that
// was below it runs on: it was moved to where the runtime does not look. It has ended when
// the container is started again, and its guest has not.
func TestRemainsEndBeforeTheNextStart(t *testing.T) {
	for name, c := range map[string]struct {
		service generation.Service
		ends    bool
	}{
		"a service with guests": {generation.Service{Argv: []string{"init", "libvirtd"}, Guests: &nodefile.Guests{}}, true},
		"of an image of Kolla":  {generation.Service{Argv: []string{"kolla_start"}, Command: []string{"libvirtd", "--listen"}, Guests: &nodefile.Guests{}}, true},
		"one without guests":    {generation.Service{Argv: []string{"init", "libvirtd"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newCutoverNode(t)
			at := "/kollet-guests-abc"
			service, born, other := n.start(at, loop), n.start(at, loop), n.start("/docker/def", loop)
			n.list(at, service, born)
			n.write(fmt.Sprintf("proc/%d/cmdline", service.Process.Pid), "libvirtd\x00")
			n.guest(born.Process.Pid, "a")
			looks := 0
			n.node.Host.SocketPeers = func(int) (map[uint64]uint64, error) {
				if looks++; looks == 2 { // as if it were moved, which has no effect here
					n.write(fmt.Sprintf("proc/%d/task/%[1]d/cgroup", born.Process.Pid), "2:pids:/kollet-guests\n")
				}
				return map[uint64]uint64{}, nil
			}
			container := containers.Container{ID: "abc", State: containers.StateExited}
			engine := &wards{all: []containers.Container{container}}
			n.node.Engine = engine
			c.service.Name = "a"
			tx := newTransaction(n.node, nil, generation.Generation{})
			if err := tx.startAgain(t.Context(), container, member{name: "a", old: c.service}, false); err != nil {
				t.Error(err)
			}
			if ended(t, service) != c.ends || ended(t, born) || ended(t, other) {
				t.Errorf("ended: the service %v, its guest %v, another container's %v", ended(t, service), ended(t, born), ended(t, other))
			}
			if !slices.Contains(engine.did, "start abc") {
				t.Errorf("did %q", engine.did)
			}
		})
	}
}

// unheard is an engine whose answer to the first start is lost.
type unheard struct {
	*wards
	starts func() (pid int)
}

func (e unheard) Start(ctx context.Context, id string) error {
	if err := e.wards.Start(ctx, id); err != nil || e.all[0].PID > 0 {
		return err
	}
	e.all[0].State, e.all[0].PID = containers.StateRunning, e.starts()
	return containers.ErrUnreachable
}

// What a rollback has started is not what an upgrade left, when it tries again.
func TestStartedServiceSurvivesTheNextTry(t *testing.T) {
	n := newCutoverNode(t)
	var service *exec.Cmd
	engine := unheard{&wards{all: []containers.Container{{ID: "abc", State: containers.StateExited}}}, func() int {
		service = n.start("/docker/abc", loop)
		n.list("/docker/abc", service)
		n.write(fmt.Sprintf("proc/%d/cmdline", service.Process.Pid), "libvirtd\x00")
		return service.Process.Pid
	}}
	n.node.Engine = engine
	tx := newTransaction(n.node, nil, generation.Generation{})
	tx.previous["a"] = []string{"abc"}
	old := generation.Service{Name: "a", Argv: []string{"libvirtd"}, Guests: &nodefile.Guests{}}
	if err := tx.revive(t.Context(), member{name: "a", old: old}, false); err != nil {
		t.Error(err)
	}
	if ended(t, service) {
		t.Errorf("the service was killed: %v", n.notes)
	}
	if want := []string{"update abc ", "start abc", "update abc ", "start abc"}; !slices.Equal(engine.did, want) {
		t.Errorf("did %q, want %q", engine.did, want)
	}
}

// What starts others faster than it can be killed is frozen first. A guest among it keeps
// running, and nothing stays frozen.
func TestEndFrozen(t *testing.T) {
	n := newCutoverNode(t)
	const at = "/kollet-guests-abc"
	n.write("proc/self/mountinfo", "1 0 0:1 / "+n.dir+"/cgroup rw - cgroup none rw,pids\n2 0 0:2 / "+n.dir+"/freezer rw - cgroup none rw,freezer\n")
	state := "freezer" + at + "/freezer.state"
	n.write(state, "THAWED")
	frozen := func() string {
		text, err := os.ReadFile(filepath.Join(n.dir, state))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	inBoth := at + "\n3:freezer:" + at
	first, others, born := n.start(inBoth, loop), []*exec.Cmd{n.start(inBoth, loop), n.start(inBoth, loop)}, n.start(inBoth, loop)
	n.list(at, first, others[0], others[1], born)
	n.guest(born.Process.Pid, "a")
	task := n.task(generation.Service{}, first)
	looks := 0
	n.node.Host.SocketPeers = func(int) (map[uint64]uint64, error) { // when a sorter is made, and when they are sorted
		if looks++; looks == 1 {
			return map[uint64]uint64{}, nil
		}
		if got := frozen(); got != "FROZEN" {
			t.Errorf("they are %s when they are sorted", got)
		}
		n.write(fmt.Sprintf("proc/%d/task/%[1]d/cgroup", born.Process.Pid), "2:pids:/kollet-guests\n") // as if it were moved
		return map[uint64]uint64{}, nil
	}
	sorter, err := n.node.GuestFinder().Sorter(task.cgroup, first.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := endFrozen(t.Context(), n.node, task.cgroup, sorter); err != nil {
		t.Error(err)
	}
	for _, p := range append(others, first) {
		if !ended(t, p) {
			t.Error("a process of the service still runs")
		}
	}
	if ended(t, born) || frozen() != "THAWED" {
		t.Errorf("the guest has ended: %v; they are %s", ended(t, born), frozen())
	}
	if guest.Freezable(task.cgroup, "abd") || !guest.Freezable(task.cgroup, "abc") {
		t.Error("it may freeze another cgroup than its own")
	}
}

// A cgroup that cannot be frozen keeps nobody waiting without end. A cancelled command ends at once.
func TestEndLeftEnds(t *testing.T) {
	n := newCutoverNode(t)
	first, left := n.start("/docker/abc", loop), n.start("/docker/abc", loop)
	n.list("/docker/abc", left)
	n.write(fmt.Sprintf("proc/%d/cmdline", left.Process.Pid), "") // it starts, permanently
	now := time.Now()
	n.node.Host.Now = func() time.Time { now = now.Add(time.Hour); return now }
	task := n.task(generation.Service{}, first)
	sorter, err := n.node.GuestFinder().Sorter(task.cgroup, first.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := endLeft(t.Context(), n.node, task.cgroup, "abc", sorter); err == nil || !strings.Contains(err.Error(), "start each other again") {
		t.Errorf("late: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := endLeft(ctx, n.node, task.cgroup, "abc", sorter); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
