package upgrade

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/generation"
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
