package guest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestUnlisted(t *testing.T) {
	n := newNode(t)
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	const open, closed = gate3, gate12
	n.file(n.Generations+"/000003/nova-libvirt/gate/open", "")
	in := func(pid int, cgroup, at string) {
		n.file(n.process(pid, "libvirtd\x00", at)+"/cgroup", "4:pids:"+cgroup+"\n0::/\n")
		n.file(fmt.Sprintf("%s/%d/stat", n.Host.Proc, pid), fmt.Sprintf("%d (a) S 2 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 100 99", pid))
	}
	n.dir(n.Host.Proc + "/2")
	n.file(n.Host.Proc+"/2/comm", "containerd-shim\n")
	in(20, "/kollet/"+id("a"), open)
	in(21, "/kollet/"+id("b"), open)
	in(22, "/system.slice/docker-"+id("b")+".scope", open) // the same container
	in(30, "/kollet/"+id("c"), closed)                     // it waits at its gate
	in(31, "/kollet/"+id("d"), "")                         // another program's container
	in(32, "/kollet-guests-"+id("e"), open)                // a guest that was moved
	in(33, "/", open)
	in(34, "/docker/"+id("e")+"/kollet/"+id("a"), open) // the engine runs in a container
	// A guest that was left by a container that was removed.
	n.file(n.process(35, qemu("left"), open)+"/cgroup", "4:pids:/kollet/"+id("9")+"\n")
	in(36, "/kollet/"+id("8"), open) // its mounts cannot be read
	n.file(n.Host.Proc+"/36/mountinfo", strings.Repeat("x", 1<<20))
	n.dir(n.Host.Proc + "/40") // exited while it was inspected

	got, err := n.Unlisted([]string{id("a")})
	want := []Unlisted{{21, id("b"), "nova-libvirt", false}, {30, id("c"), "nova-libvirt", true}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	in(50, "/kollet/"+id("f"), open)
	if got, err := n.Unlisted(nil); err != nil || len(got) != 4 {
		t.Errorf("got %v, %v; want four", got, err)
	}
}
