package guest

import (
	"slices"
	"strings"
	"testing"
)

func TestUnlisted(t *testing.T) {
	n := newNode(t)
	id := func(digit string) string { return strings.Repeat(digit, 64) }
	open := n.Generations + "/000003/nova-libvirt/gate"
	closed := n.Generations + "/000012/nova-libvirt/gate"
	n.file(open+"/open", "")
	in := func(pid int, cgroup, at string) {
		root := ""
		if at != "" {
			root = strings.TrimPrefix(at, n.Generations)
		}
		n.file(n.process(pid, "libvirtd\x00", at, root)+"/cgroup", "4:pids:"+cgroup+"\n0::/\n")
	}
	in(20, "/kollet/"+id("a"), open)
	in(21, "/kollet/"+id("b"), open)
	in(22, "/system.slice/docker-"+id("b")+".scope", open) // the same container
	in(30, "/kollet/"+id("c"), closed)                     // it waits at its gate
	in(31, "/kollet/"+id("d"), "")                         // another program's container
	in(32, "/kollet-guests-"+id("e"), open)                // a guest that was moved
	in(33, "/", open)
	n.dir(n.Host.Proc + "/40") // exited while it was inspected

	got, err := n.Unlisted([]string{id("a")})
	want := []Unlisted{{21, id("b"), "nova-libvirt"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	n.file(n.process(50, "libvirtd\x00", open, "/000003/nova-libvirt/gate")+"/cgroup", "0::/kollet/"+id("f")+"\n")
	if got, err := n.Unlisted(nil); err != nil || len(got) != 3 {
		t.Errorf("got %v, %v; want three", got, err)
	}
}
