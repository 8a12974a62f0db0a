package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/host"
)

// node is a made-up /proc, and the generations that its processes run from.
type node struct {
	t *testing.T
	Finder
}

func newNode(t *testing.T) node {
	dir := t.TempDir()
	n := node{t, Finder{Host: host.Host{Proc: dir + "/proc"}, Generations: dir + "/generations"}}
	n.dir(n.Host.Proc + "/self")
	n.dir(n.Host.Proc + "/irq")
	for _, own := range []string{"000003/nova-libvirt", "000012/nova-libvirt"} {
		n.dir(n.Generations + "/" + own + "/gate")
	}
	return n
}

func (n node) dir(path string) {
	n.t.Helper()
	if err := os.MkdirAll(path, 0o700); err != nil {
		n.t.Fatal(err)
	}
}

func (n node) file(path, content string) {
	n.t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// process adds a process; at is the gate directory that its file system has,
// empty for none, and root is its root in mountinfo.
func (n node) process(pid int, cmdline, at, root string) string {
	dir := filepath.Join(n.Host.Proc, strconv.Itoa(pid))
	n.dir(dir + "/root/" + filepath.Dir(gate.Dir))
	mounts := "100 99 0:50 / / rw - overlay overlay rw\n"
	if root != "" {
		mounts += fmt.Sprintf("101 100 8:1 %s %s rw,relatime - ext4 /dev/sda1 rw\n", root, gate.Dir)
	}
	if at != "" {
		if err := os.Remove(filepath.Join(dir, "root", filepath.Dir(gate.Dir))); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Remove(dir + "/root"); err != nil {
			n.t.Fatal(err)
		}
		if err := os.Symlink(n.rootWith(at), dir+"/root"); err != nil {
			n.t.Fatal(err)
		}
	}
	n.file(dir+"/cmdline", cmdline)
	n.file(dir+"/mountinfo", mounts)
	n.file(dir+"/stat", fmt.Sprintf("%d (a) b) S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", pid, 1000+pid))
	return dir
}

// rootWith returns a file system in which a directory of this node is the gate's: without mounts,
// it is moved there.
func (n node) rootWith(at string) string {
	root := filepath.Join(n.Host.Proc, "../roots", strings.ReplaceAll(at, "/", "-"))
	if _, err := os.Stat(root); err == nil {
		return root
	}
	n.dir(at)
	n.dir(root + "/" + filepath.Dir(gate.Dir))
	for _, err := range []error{os.Rename(at, root+gate.Dir), os.Symlink(root+gate.Dir, at)} {
		if err != nil {
			n.t.Fatal(err)
		}
	}
	return root
}

func qemu(name string) string {
	return "/usr/bin/qemu-system-x86_64\x00-name\x00guest=" + name + ",debug-threads=on\x00-uuid\x00uuid-" + name + "\x00"
}

func TestFind(t *testing.T) {
	n := newNode(t)
	gate3, gate12 := n.Generations+"/000003/nova-libvirt/gate", n.Generations+"/000012/nova-libvirt/gate"
	n.dir(n.Generations + "-other/000003/nova-libvirt/gate")
	n.process(20, qemu("b"), gate3, "/lib/kollet/generations/000003/nova-libvirt/gate")
	n.process(21, qemu("a"), gate12, "/000012/nova-libvirt/gate")
	n.process(22, qemu("deleted"), gate3, "/generations/000003/nova-libvirt/gate//deleted")
	n.process(30, qemu("host"), "", "")                                                                             // in no container
	n.process(31, qemu("other"), n.Generations+"-other/000003/nova-libvirt/gate", "/x/000003/nova-libvirt/gate")    // another node's
	n.process(32, qemu("gone"), gate3, "/generations/000099/nova-libvirt/gate")                                     // its generation is gone
	n.process(33, "libvirtd\x00-name\x00guest=x\x00-uuid\x00y\x00", gate3, "/generations/000003/nova-libvirt/gate") // no guest
	n.process(34, "", gate3, "/generations/000003/nova-libvirt/gate")                                               // kernel thread, zombie
	n.process(35, qemu("short"), gate3, "/gate")
	n.process(36, qemu("word"), gate3, "/generations/latest/nova-libvirt/gate")
	// Any user's process may pretend, in namespaces of its own.
	pretends := n.process(37, qemu("link"), "", "/000003/nova-libvirt/gate")
	if err := os.Symlink(gate3, pretends+"/root"+gate.Dir); err != nil {
		t.Fatal(err)
	}
	pretends = n.process(38, qemu("circle"), "", "/000003/nova-libvirt/gate")
	if err := os.Symlink("gate", pretends+"/root"+gate.Dir); err != nil {
		t.Fatal(err)
	}
	n.file(n.process(39, qemu("long"), gate3, "/000003/nova-libvirt/gate")+"/mountinfo", strings.Repeat("x", 1<<20))
	n.dir(n.Host.Proc + "/40") // exited while it was inspected
	if err := os.Remove(n.process(41, qemu("ends"), gate3, "/000003/nova-libvirt/gate") + "/stat"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.process(42, qemu("ends"), gate3, "/000003/nova-libvirt/gate") + "/mountinfo"); err != nil {
		t.Fatal(err)
	}
	n.process(43, qemu("ends"), "", "/000003/nova-libvirt/gate") // its root is gone

	got, err := n.Find()
	if err != nil {
		t.Fatal(err)
	}
	want := []Guest{
		{"a", "uuid-a", 21, 1021, 12, "nova-libvirt"},
		{"b", "uuid-b", 20, 1020, 3, "nova-libvirt"},
		{"deleted", "uuid-deleted", 22, 1022, 3, "nova-libvirt"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got, err := n.Among([]int{20, 30, 99}); err != nil || len(got) != 1 || got[0].PID != 20 {
		t.Errorf("among some: %v, %v", got, err)
	}
	// A file that cannot be parsed is an error, so that no guest is missed.
	n.file(n.process(50, qemu("c"), gate3, "/000003/nova-libvirt/gate")+"/stat", "50 (c) S")
	if got, err := n.Find(); err == nil || !strings.HasPrefix(err.Error(), "find guests: process 50: read ") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := (Finder{Host: host.Host{Proc: n.Host.Proc + "/none"}}).Find(); err == nil {
		t.Error("no error without /proc")
	}
}

func TestSame(t *testing.T) {
	g := Guest{PID: 1, Start: 2, Name: "a"}
	for other, want := range map[Guest]bool{{PID: 1, Start: 2}: true, {PID: 1, Start: 3, Name: "a"}: false, {PID: 2, Start: 2, Name: "a"}: false} {
		if g.Same(other) != want {
			t.Errorf("%+v: %v", other, !want)
		}
	}
}

// A guest that ends while it is inspected must not stop an upgrade.
func TestZombie(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	pid := cmd.Process.Pid
	p, err := host.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if exited, err := p.Exited(30 * time.Second); !exited || err != nil {
		t.Fatalf("the process does not exit: %v", err)
	}
	f := Finder{Host: host.Real(), Generations: t.TempDir()}
	if _, _, err := f.startedBy(pid); !host.Gone(err) {
		t.Errorf("got %v", err)
	}
	if guests, err := f.Among([]int{pid}); err != nil || len(guests) > 0 {
		t.Errorf("got %v, %v", guests, err)
	}
}

// The canary is none of the node's guests. Only its name and its UUID together say
// that a guest is the canary, and another node's canary is not this node's.
func TestCanaries(t *testing.T) {
	n := newNode(t)
	own := n.Generations + "/000003/nova-libvirt/gate"
	other := n.Generations + "-other/000003/nova-libvirt/gate"
	n.dir(other)
	canary := "qemu-system-x86_64\x00-name\x00guest=" + CanaryName + "\x00-uuid\x00" + CanaryUUID + "\x00"
	n.process(20, canary, own, "/generations/000003/nova-libvirt/gate")
	n.process(21, canary, other, "/generations-other/000003/nova-libvirt/gate")
	n.process(22, qemu(CanaryName), own, "/generations/000003/nova-libvirt/gate")
	n.process(23, strings.Replace(canary, CanaryName, "vm", 1), own, "/generations/000003/nova-libvirt/gate")
	for _, c := range []struct {
		name string
		find func() ([]Guest, error)
		want []int
	}{{"guests", n.Find, []int{22, 23}}, {"canaries", n.Canaries, []int{20}}} {
		found, err := c.find()
		var pids []int
		for _, g := range found {
			pids = append(pids, g.PID)
		}
		if slices.Sort(pids); err != nil || !slices.Equal(pids, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, pids, err, c.want)
		}
	}
}
