package guest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/host"
)

// proc is a process of a made-up container. Its first process is 10, with the session
// 10, the engine's shim is 5, and a guest is process 20, with the socket 200, whose other
// end is 201, and the memory 7.
type proc struct {
	pid, parent, session int
	args                 string   // separated by spaces; ~ is a space
	fds                  []string // from descriptor 0
	maps                 string
	state                string // empty: S
	terminal             int
}

const (
	shim  = 5
	first = 10
	vm    = 20
)

func (n node) add(p proc) {
	n.t.Helper()
	dir := n.process(p.pid, strings.NewReplacer(" ", "\x00", "~", " ").Replace(p.args)+"\x00", "")
	n.family(dir, p)
}

func (n node) family(dir string, p proc) {
	n.t.Helper()
	if p.state == "" {
		p.state = "S"
	}
	n.file(dir+"/stat", fmt.Sprintf("%d (a) b) %s %d %d %d %d -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", p.pid, p.state, p.parent, p.session, p.session, p.terminal, 1000+p.pid))
	program, _, _ := strings.Cut(p.args, " ")
	n.file(dir+"/comm", program+"\n")
	n.file(dir+"/maps", p.maps)
	n.dir(dir + "/fd")
	for fd, target := range p.fds {
		if err := os.Symlink(target, fmt.Sprintf("%s/fd/%d", dir, fd)); err != nil {
			n.t.Fatal(err)
		}
	}
}

// libvirt adds the container's first process, its shim, and the guest.
func (n *node) libvirt(args string, guests bool) {
	n.t.Helper()
	n.Host.SocketPeers = func(int) (map[uint64]uint64, error) {
		return map[uint64]uint64{200: 201, 201: 200, 210: 211, 211: 210, 300: 301, 301: 300}, nil
	}
	n.add(proc{pid: shim, parent: 1, session: shim, args: "shim", fds: []string{"/dev/null", "pipe:[100]", "pipe:[101]"}})
	n.add(proc{pid: first, parent: shim, session: first, args: args, fds: []string{"/dev/null", "pipe:[100]", "/dev/null", "socket:[211]"}})
	if guests {
		dir := n.process(vm, qemu("a"), gate3)
		n.family(dir, proc{
			pid: vm, parent: shim, session: 19, args: "qemu", fds: []string{"/dev/null", "pipe:[102]", "socket:[200]", "socket:[210]", "anon_inode:[eventfd]"},
			maps: "7f00-7f10 rw-s 00000000 00:01 7 /memfd:ram (deleted)\n7f20-7f30 rw-s 00000000 00:0e 8 anon_inode:kvm-vcpu:0\n7f40-7f50 r--s 00000000 08:01 9 /usr/lib/cache\n",
		})
	}
}

// sort sorts processes of the made-up container.
func (n node) sort(pids ...int) Sorted {
	n.t.Helper()
	sorter, err := n.Sorter(host.Cgroup{Shim: shim}, first, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	sorted, err := sorter.Sort(pids)
	if err != nil {
		n.t.Fatal(err)
	}
	return sorted
}

func numbers(processes []Process) []int {
	pids := []int{}
	for _, p := range processes {
		pids = append(pids, p.PID)
	}
	return pids
}

// What a process is to a guest decides, whatever its name is.
func TestSort(t *testing.T) {
	child := func(pid int, args string, fds ...string) proc {
		return proc{pid: pid, parent: first, session: first, args: args, fds: fds}
	}
	daemon := func(pid int, args string) proc {
		return proc{pid: pid, parent: shim, session: pid - 1, args: args}
	}
	command := func(pid int, args string) proc {
		return proc{pid: pid, parent: shim, session: pid, args: args, fds: []string{"/dev/null", "pipe:[101]"}}
	}
	for _, c := range []struct {
		name      string
		service   string // arguments of the first process
		processes []proc
		kept      []int // of the processes that are neither guest nor service
		ends      []int
	}{
		{name: "nothing else"},
		{name: "a child of the service", processes: []proc{child(30, "virsh")}, ends: []int{30}},
		{name: "the name of a helper says nothing", processes: []proc{child(30, "swtpm")}, ends: []int{30}},
		{name: "the other end of a socket", processes: []proc{child(30, "x", "/dev/null", "socket:[201]")}, kept: []int{30}},
		{name: "the same end of a socket", processes: []proc{child(30, "x", "socket:[200]")}, kept: []int{30}},
		{name: "another socket", processes: []proc{child(30, "x", "socket:[300]")}, ends: []int{30}},
		{name: "the end of a pipe", processes: []proc{child(30, "x", "pipe:[102]")}, kept: []int{30}},
		{name: "the pipe to the engine", processes: []proc{child(30, "x", "/dev/null", "pipe:[100]")}, ends: []int{30}},
		{name: "shared memory", processes: []proc{{pid: 30, parent: first, session: first, args: "x", maps: "1-2 rw-s 0 00:01 7 /memfd:ram (deleted)\n"}}, kept: []int{30}},
		{name: "memory that everybody has", processes: []proc{{
			pid: 30, parent: first, session: first, args: "x",
			maps: "1-2 rw-s 0 00:0e 8 anon_inode:x\n1-2 r--s 0 08:01 9 /usr/lib/cache\n1-2 rw-p 0 00:01 7 /memfd:ram\n1-2 rw-s 0 00:00 0\n",
		}}, ends: []int{30}},
		{name: "an anonymous descriptor", processes: []proc{child(30, "x", "anon_inode:[eventfd]")}, ends: []int{30}},
		{
			name:      "tied to what is tied to the guest",
			processes: []proc{child(30, "x", "socket:[301]"), child(31, "y", "socket:[300]", "pipe:[103]"), child(32, "z", "socket:[201]", "pipe:[103]")},
			kept:      []int{30, 31, 32},
		},
		{name: "the end of a socket that the service holds too", processes: []proc{child(30, "x", "socket:[211]")}, kept: []int{30}},
		{
			name:      "a child of a helper",
			processes: []proc{child(30, "x", "socket:[201]"), {pid: 31, parent: 30, session: first, args: "y"}},
			kept:      []int{30, 31},
		},
		{
			name:      "the parent of a helper",
			processes: []proc{child(30, "x"), {pid: 31, parent: 30, session: first, args: "y", fds: []string{"socket:[201]"}}},
			kept:      []int{30, 31},
		},
		{
			name:      "in the session of a helper",
			processes: []proc{{pid: 30, parent: first, session: 30, args: "x"}, {pid: 31, parent: first, session: 30, args: "y", fds: []string{"socket:[201]"}}},
			kept:      []int{30, 31},
		},
		{name: "a child of the guest", processes: []proc{{pid: 30, parent: vm, session: 19, args: "x"}}, kept: []int{30}},
		{name: "daemons", processes: []proc{daemon(30, "virtlockd"), daemon(35, "dnsmasq")}, kept: []int{30, 35}},
		{name: "a daemon that the first process adopted", processes: []proc{{pid: 30, parent: first, session: 29, args: "dbus-daemon"}}, kept: []int{30}},
		{name: "a child with a session of its own", processes: []proc{{pid: 30, parent: first, session: 30, args: "x"}}, ends: []int{30}},
		{
			name:      "a session whose leader is a zombie",
			processes: []proc{{pid: 30, parent: first, session: 30, args: "x", state: "Z"}, {pid: 31, parent: first, session: 30, args: "y"}},
			kept:      []int{31},
		},
		{name: "a command in the container", processes: []proc{command(30, "virsh"), {pid: 31, parent: 30, session: 30, args: "sleep"}}, ends: []int{30, 31}},
		{name: "a shell in the container", processes: []proc{{pid: 30, parent: shim, session: 30, args: "sh", terminal: 34817}}, ends: []int{30}},
		{name: "a command that uses the guest", processes: []proc{{pid: 30, parent: shim, session: 30, args: "x", fds: []string{"/dev/null", "pipe:[101]", "socket:[201]"}}}, kept: []int{30}},
		{name: "a zombie", processes: []proc{{pid: 30, parent: first, session: first, args: "x", state: "Z"}}},
		{name: "a copy of the service", processes: []proc{child(30, "libvirtd --listen", "socket:[201]")}},
		{
			name: "a service behind an init process", service: "dumb-init -- /usr/sbin/libvirtd --listen",
			processes: []proc{{pid: 30, parent: first, session: 30, args: "libvirtd --listen", fds: []string{"socket:[201]"}}},
		},
		{name: "a helper that a script names", service: "sh -c /usr/sbin/libvirtd~&~/usr/sbin/swtpm", processes: []proc{daemon(30, "swtpm")}, kept: []int{30}},
		{name: "another program of the interpreter", service: "python3 /usr/bin/serve", processes: []proc{child(30, "python3 helper", "socket:[201]")}, kept: []int{30}},
		{name: "a QEMU that libvirt asks what it can do", processes: []proc{daemon(30, "qemu-system-x86_64 -machine none")}, ends: []int{30}},
		{name: "the canary", processes: []proc{daemon(30, "qemu-system-x86_64 -name guest="+CanaryName+" -uuid "+CanaryUUID)}},
		{name: "one that has exited", processes: []proc{{pid: -1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.service == "" {
				c.service = "libvirtd --listen"
			}
			for _, guests := range []bool{true, false} {
				n := newNode(t)
				n.libvirt(c.service, guests)
				pids := []int{first, vm}
				for _, p := range c.processes {
					if p.pid > 0 {
						n.add(p)
					}
					pids = append(pids, p.pid)
				}
				got := n.sort(pids...)
				if !guests { // nothing is kept
					if len(got.Kept()) > 0 || len(got.Ending) > 0 {
						t.Errorf("without guests: %+v", got)
					}
					continue
				}
				if len(got.Guests) != 1 || !slices.Equal(numbers(got.Helpers), append([]int{}, c.kept...)) || !slices.Equal(numbers(got.Ending), append([]int{}, c.ends...)) {
					t.Errorf("got %+v, want helpers %v, ending %v", got, c.kept, c.ends)
				}
				outside := n.sort(slices.DeleteFunc(pids, func(pid int) bool { return pid == vm })...)
				if len(outside.Guests) > 0 || c.name != "a child of the guest" && !slices.Equal(numbers(outside.Helpers), numbers(got.Helpers)) {
					t.Errorf("while the guest is in another cgroup: %+v, want helpers %v", outside, c.kept)
				}
			}
		})
	}
}

// The arguments of the init process of Kolla's images do not tell what their start script
// runs. That is the service, which is tied to every guest, and no helper.
func TestSortBehindStartScript(t *testing.T) {
	n := newNode(t)
	n.libvirt("dumb-init --single-child -- kolla_start", true)
	n.add(proc{pid: 30, parent: first, session: first, args: "libvirtd --listen", fds: []string{"socket:[201]"}})
	n.add(proc{pid: 31, parent: first, session: first, args: "swtpm", fds: []string{"socket:[201]"}})
	sorter, err := n.Sorter(host.Cgroup{Shim: shim}, first, []string{"/usr/sbin/libvirtd", "--listen"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := sorter.Sort([]int{first, vm, 30, 31})
	if err != nil || !slices.Equal(numbers(got.Helpers), []int{31}) || len(got.Ending) > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}

// After the service's exit, what it left behind looks like a daemon and is none. What
// came meanwhile is judged by what it is to a guest.
func TestSortAgain(t *testing.T) {
	n := newNode(t)
	n.libvirt("libvirtd --listen", true)
	own := proc{pid: 30, parent: first, session: 30, args: "qemu-img"}
	plain := proc{pid: 31, parent: first, session: first, args: "ovs-vsctl"}
	daemon := proc{pid: 32, parent: shim, session: 29, args: "virtlockd"}
	for _, p := range []proc{own, plain, daemon} {
		n.add(p)
	}
	running := n.Host.SocketPeers
	n.Host.SocketPeers = func(pid int) (map[uint64]uint64, error) {
		if _, err := os.Stat(n.Host.ProcessPath(pid, "")); err != nil {
			return nil, err
		}
		return running(pid)
	}
	sorter, err := n.Sorter(host.Cgroup{Shim: shim}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sorter.Sort([]int{first, 30, 31, 32}); err != nil || !slices.Equal(numbers(got.Ending), []int{30, 31}) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if err := os.RemoveAll(n.Host.ProcessPath(first, "")); err != nil {
		t.Fatal(err)
	}
	own.parent, plain.parent = shim, shim
	for _, p := range []proc{own, plain} {
		if err := os.RemoveAll(n.Host.ProcessPath(p.pid, "")); err != nil {
			t.Fatal(err)
		}
		n.add(p)
	}
	n.add(proc{pid: 40, parent: shim, session: 39, args: "passt"})                                     // for the next one
	n.add(proc{pid: 41, parent: shim, session: first, args: "tool", fds: []string{"socket:[400]"}})    // left behind
	n.add(proc{pid: 42, parent: shim, session: first, args: "backend", fds: []string{"socket:[301]"}}) // of the new guest
	n.family(n.process(43, qemu("b"), gate3), proc{pid: 43, parent: shim, session: 38, args: "qemu", fds: []string{"socket:[300]"}})
	got, err := sorter.Sort([]int{30, 31, 40, 41, 42, 43})
	if err != nil || len(got.Guests) != 1 || !slices.Equal(numbers(got.Helpers), []int{40, 42}) || !slices.Equal(numbers(got.Ending), []int{30, 31, 41}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// If the kernel does not say which sockets belong together, those with any are kept.
func TestSortUnknownSockets(t *testing.T) {
	n := newNode(t)
	n.libvirt("libvirtd --listen", true)
	n.Host.SocketPeers = func(int) (map[uint64]uint64, error) { return nil, errors.New("no module") }
	n.add(proc{pid: 30, parent: first, session: first, args: "x", fds: []string{"socket:[300]"}})
	n.add(proc{pid: 31, parent: first, session: first, args: "y"})
	if got := n.sort(first, 30, 31); !slices.Equal(numbers(got.Helpers), []int{30}) || !slices.Equal(numbers(got.Ending), []int{31}) {
		t.Errorf("got %+v", got)
	}
}

func TestSorterExited(t *testing.T) {
	n := newNode(t)
	if _, err := n.Sorter(host.Cgroup{Shim: shim}, first, nil); !errors.Is(err, host.ErrExited) {
		t.Errorf("got %v", err)
	}
}

// libvirtBehindInit adds a container of Kolla's: an init, below it libvirtd, and below that the guest and
// what serves it.
func (n *node) libvirtBehindInit(args string, session int) {
	n.t.Helper()
	n.libvirt(args, true)
	n.add(proc{pid: 30, parent: first, session: session, args: "/usr/sbin/libvirtd --listen", fds: []string{"/dev/null", "pipe:[100]", "/dev/null", "socket:[201]"}})
	for _, p := range []proc{
		{pid: 31, parent: 30, session: session, args: "/usr/sbin/virtlogd", fds: []string{"pipe:[102]"}},
		{pid: 32, parent: first, session: 29, args: "swtpm", fds: []string{"socket:[300]"}}, // an init adopts daemons
		{pid: 33, parent: shim, session: 28, args: "dnsmasq"},
		{pid: 34, parent: 30, session: session, args: "/usr/sbin/libvirtd --listen", fds: []string{"socket:[201]"}}, // starts a program
		{pid: 35, parent: 30, session: session, args: "qemu-img"},
		{pid: 36, parent: first, session: 27, args: "qemu-system-x86_64 -machine none"},
	} {
		n.add(p)
	}
}

// Behind an init the service is what that has started: it is tied to every guest, and no helper, whatever
// its program is called. In Kolla's images no argument names it: a script executes it.
func TestSortBehindInit(t *testing.T) {
	for _, c := range []struct {
		name, args string
		session    int // of libvirtd
		command    []string
	}{
		{"of a container that was taken over", "dumb-init --single-child -- kolla_start", first, nil},
		{"with a command that executes it", "dumb-init --single-child -- kolla_start", first, []string{"/usr/local/bin/kolla_nova_libvirt_start"}},
		{"with its command", "dumb-init --single-child -- kolla_start", first, []string{"libvirtd", "--listen"}},
		{"in a session of its own", "/usr/bin/dumb-init kolla_start", 30, nil},
		{"tini", "/sbin/docker-init -- kolla_start", first, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.libvirtBehindInit(c.args, c.session)
			sorter, err := n.Sorter(host.Cgroup{Shim: shim}, first, c.command)
			if err != nil {
				t.Fatal(err)
			}
			all := []int{first, vm, 30, 31, 32, 33, 34, 35, 36}
			check := func(when string, pids ...int) {
				t.Helper()
				got, err := sorter.Sort(pids)
				if err != nil || len(got.Guests) != 1 || !slices.Equal(numbers(got.Helpers), []int{31, 32, 33}) || !slices.Equal(numbers(got.Ending), []int{35, 36}) {
					t.Errorf("%s: %+v, %v", when, got, err)
				}
			}
			check("while the init runs", all...)
			if err := os.RemoveAll(n.Host.ProcessPath(first, "")); err != nil {
				t.Fatal(err)
			}
			check("after it was killed", all[1:]...)
		})
	}
}

// What only looks like the service behind an init is sorted by what it is to a guest.
func TestSortBesideService(t *testing.T) {
	tied := []string{"socket:[201]"}
	service := proc{pid: 30, parent: first, session: first, args: "libvirtd --listen", fds: tied}
	for _, c := range []struct {
		name      string
		args      string // of the first process
		processes []proc
		kept      []int
	}{
		{"an init that is about to exit", "dumb-init -- kolla_start", []proc{
			{pid: 30, parent: first, session: first, args: "libvirtd", state: "Z"},
			{pid: 31, parent: first, session: first, args: "virtlogd", fds: tied},
		}, []int{31}},
		{"an init that only has daemons", "dumb-init -- kolla_start", []proc{{pid: 31, parent: first, session: 29, args: "swtpm", fds: tied}}, []int{31}},
		{"an init that has only adopted a QEMU", "dumb-init -- kolla_start", []proc{
			{pid: 31, parent: first, session: 31, args: "qemu-system-x86_64", fds: tied},
		}, []int{31}},
		{"an init that has started nothing", "dumb-init -- kolla_start", []proc{{pid: 31, parent: shim, session: 31, args: "virtlogd", fds: tied}}, []int{31}},
		{"a younger child", "dumb-init -- kolla_start", []proc{{pid: 31, parent: first, session: first, args: "virtlogd", fds: tied}, service}, []int{31}},
		{"another program of its name", "dumb-init -- kolla_start", []proc{service, {pid: 31, parent: 30, session: first, args: "libvirtd --timeout", fds: tied}}, []int{31}},
		{"an init below an init", "/sbin/docker-init -- dumb-init kolla_start", []proc{
			{pid: 29, parent: first, session: first, args: "dumb-init kolla_start", fds: tied},
			{pid: 30, parent: 29, session: 30, args: "libvirtd", fds: tied},
			{pid: 31, parent: 29, session: 28, args: "swtpm", fds: tied},
		}, []int{31}},
		{"a script is no init", "sh kolla_start", []proc{service}, []int{30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.libvirt(c.args, true)
			pids := []int{first, vm}
			for _, p := range c.processes {
				n.add(p)
				pids = append(pids, p.pid)
			}
			if got := n.sort(pids...); len(got.Guests) != 1 || !slices.Equal(numbers(got.Helpers), c.kept) || len(got.Ending) > 0 {
				t.Errorf("got %+v, want helpers %v", got, c.kept)
			}
		})
	}
}

// The service may execute another program after the sorter was made, and its number may become another
// process's.
func TestSortBehindInitLater(t *testing.T) {
	n := newNode(t)
	n.libvirt("dumb-init -- kolla_start", true)
	service := proc{pid: 30, parent: first, session: first, args: "/bin/bash /usr/local/bin/kolla_start", fds: []string{"socket:[201]"}}
	n.add(service)
	sorter, err := n.Sorter(host.Cgroup{Shim: shim}, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	replace := func(args string, start int) {
		t.Helper()
		dir := n.Host.ProcessPath(30, "")
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		service.args = args
		n.add(service)
		n.file(dir+"/stat", fmt.Sprintf("30 (a) S %d %d %[2]d 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", first, first, start))
	}
	replace("libvirtd --listen", 1030)
	n.add(proc{pid: 31, parent: 30, session: first, args: "libvirtd --listen", fds: []string{"socket:[201]"}}) // a copy
	if got, err := sorter.Sort([]int{first, vm, 30, 31}); err != nil || len(got.Helpers) > 0 || len(got.Ending) > 0 {
		t.Errorf("it executes another program: %+v, %v", got, err)
	}
	replace("swtpm", 1090)
	if got, err := sorter.Sort([]int{first, vm, 30, 31}); err != nil || !slices.Equal(numbers(got.Helpers), []int{30}) {
		t.Errorf("another process has its number: %+v, %v", got, err)
	}
	behind, err := sorter.Behind()
	if err != nil || len(behind) > 0 {
		t.Errorf("another process is opened: %v, %v", behind, err)
	}
}
