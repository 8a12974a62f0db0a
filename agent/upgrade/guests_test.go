package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// libvirt is an engine whose libvirt lists these guests.
type libvirt struct {
	containers.Engine
	guests string
	status int
	err    error
}

func (l libvirt) List(context.Context, map[string]string) ([]containers.Container, error) {
	return []containers.Container{{ID: "libvirt", State: containers.StateRunning}}, nil
}

func (l libvirt) Exec(_ context.Context, _ string, e containers.Exec) (int, error) {
	_, _ = io.WriteString(e.Stdout, l.guests)
	return l.status, l.err
}

// guest makes a process of the made-up /proc a guest that generation 1 of
// nova-libvirt started.
func (c *cutoverNode) guest(pid int, name string) {
	c.Helper()
	c.guestOf(pid, 1, name, "uuid-"+name)
}

func (c *cutoverNode) guestOf(pid, generation int, name, uuid string) {
	c.Helper()
	dir := c.node.Store().Gate(generation, "nova-libvirt")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.Fatal(err)
	}
	c.write(fmt.Sprintf("proc/%d/cmdline", pid), "qemu-system-x86_64\x00-name\x00guest="+name+"\x00-uuid\x00"+uuid+"\x00")
	c.write(fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (qemu) S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", pid, 1000+pid))
	c.write(fmt.Sprintf("proc/%d/mountinfo", pid), fmt.Sprintf("101 100 8:1 %s %s rw - ext4 /dev/sda1 rw\n", strings.TrimPrefix(dir, c.dir), gate.Dir))
}

func TestFindGuests(t *testing.T) {
	before := func(pid int, name string) guest.Guest {
		return guest.Guest{Name: name, UUID: "uuid-" + name, PID: pid, Start: uint64(1000 + pid), Generation: 1, Service: "nova-libvirt"}
	}
	restarted := before(20, "a")
	restarted.Start--
	for _, c := range []struct {
		name   string
		before []guest.Guest
		now    map[int]string // name by process
		engine libvirt
		want   string // part of the error; empty: none
	}{
		{"no guests", nil, nil, libvirt{err: errors.New("not asked")}, ""},
		{"all there", []guest.Guest{before(20, "a"), before(21, "b")}, map[int]string{20: "a", 21: "b"}, libvirt{guests: "uuid-b\nuuid-a\n"}, ""},
		{"a new one", []guest.Guest{before(20, "a")}, map[int]string{20: "a", 22: "c"}, libvirt{guests: "uuid-a\n"}, ""},
		{"ended", []guest.Guest{before(20, "a"), before(21, "b")}, map[int]string{20: "a"}, libvirt{guests: "uuid-a\nuuid-b\n"}, "guest b (process 21) has exited"},
		{"another process with its number", []guest.Guest{restarted}, map[int]string{20: "a"}, libvirt{guests: "uuid-a\n"}, "guest a (process 20) has exited"},
		{"unknown to libvirt", []guest.Guest{before(20, "a"), before(21, "b")}, map[int]string{20: "a", 21: "b"}, libvirt{guests: "uuid-a\n"}, "nova-libvirt does not know guest b"},
		{"libvirt fails", []guest.Guest{before(20, "a")}, map[int]string{20: "a"}, libvirt{guests: "no connection", status: 1}, `ask nova-libvirt for its guests: "virsh list": exit status 1: no connection`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCutoverNode(t)
			for pid, name := range c.now {
				n.guest(pid, name)
			}
			n.node.Engine = c.engine
			tx := newTransaction(n.node, nil, generation.Generation{})
			defer tx.watch.stop()
			tx.guests = c.before
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			service := generation.Service{Name: "nova-libvirt", Origin: 2, Guests: &nodefile.Guests{List: []string{"virsh", "list"}}}
			err := tx.findGuests(ctx, group{{name: "nova-libvirt", new: service}})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// What cannot be moved out of the container that is about to end stops the
// upgrade before anything is stopped. What ends with it is named.
func TestProtectContainer(t *testing.T) {
	for _, c := range []struct {
		name   string
		guest  string // cgroup of a guest; empty: there is none
		tied   bool   // the other process has a socket of the guest
		ending string // what ends with the container; empty: nothing
		want   string // part of the error; empty: none
	}{
		{"without guests", "", true, "", ""},
		{"a guest elsewhere", "/machine/qemu-1", false, "sh", ""},
		{"a guest that cannot be moved", "/docker/abc", false, "sh", "would die with their container"},
		{"a helper that cannot be moved", "/machine/qemu-1", true, "", "would die with their container"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newCutoverNode(t)
			first := n.start("/docker/abc", loop)
			other := n.start("/docker/abc", loop)
			vm := n.start("/docker/abc", loop)
			n.list("/docker/abc", first, other)
			n.write(fmt.Sprintf("proc/%d/cmdline", first.Process.Pid), "libvirtd\x00")
			if c.tied {
				n.link(fmt.Sprintf("proc/%d/fd/3", other.Process.Pid), "socket:[1]")
			}
			if c.guest != "" {
				n.guest(vm.Process.Pid, "a")
				n.write(fmt.Sprintf("proc/%d/task/%[1]d/cgroup", vm.Process.Pid), "2:pids:"+c.guest+"\n")
				n.link(fmt.Sprintf("proc/%d/fd/3", vm.Process.Pid), "socket:[1]")
				if c.guest == "/docker/abc" {
					n.list("/docker/abc", first, other, vm)
				}
			}
			task := n.task(generation.Service{Name: "nova-libvirt"}, first)
			sorter, err := n.node.GuestFinder().Sorter(task.cgroup, first.Process.Pid, nil)
			if err != nil {
				t.Fatal(err)
			}
			ending, err := protectContainer(t.Context(), n.node, task.cgroup, sorter)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if (c.ending == "") != (len(ending) == 0) || c.ending != "" && ending[0] != (guest.Process{Name: c.ending, PID: other.Process.Pid}) {
				t.Errorf("ending are %v, want %q", ending, c.ending)
			}
		})
	}
}

// A guest of another service than those that are cut over ends by itself.
func TestConcerns(t *testing.T) {
	tx := transaction{to: generation.Generation{Services: services("libvirt mallory")}}
	g := group{{name: "libvirt"}}
	for service, want := range map[string]bool{"libvirt": true, "mallory": false, "renamed": true} {
		if got := tx.concerns(g, guest.Guest{Service: service}); got != want {
			t.Errorf("%s: %v", service, got)
		}
	}
}
