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

// What is mounted at the gates of two generations.
const gate3, gate12 = "8:1 /state/generations/000003/nova-libvirt/gate", "8:1 /state/generations/000012/nova-libvirt/gate"

func newNode(t *testing.T) node {
	dir := t.TempDir()
	n := node{t, Finder{Host: host.Host{Proc: dir + "/proc"}, Generations: dir + "/generations"}}
	n.dir(n.Host.Proc + "/self")
	n.file(n.Host.Proc+"/self/mountinfo", "20 1 8:0 / / rw - ext4 /dev/sda rw\n21 20 8:1 /state "+dir+" rw - ext4 /dev/sda1 rw\n22 20 8:2 / /var rw - ext4 /dev/sda2 rw\n")
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

// process adds a process. at is what is mounted at its gate, as device and root in mountinfo;
// empty: nothing.
func (n node) process(pid int, cmdline, at string) string {
	dir := filepath.Join(n.Host.Proc, strconv.Itoa(pid))
	n.dir(dir)
	mounts := "100 99 0:50 / / rw - overlay overlay rw\n"
	if at != "" {
		mounts += fmt.Sprintf("101 100 %s %s rw,relatime - ext4 /dev/sda1 rw\n", at, gate.Dir)
	}
	n.file(dir+"/cmdline", cmdline)
	n.file(dir+"/mountinfo", mounts)
	n.file(dir+"/stat", fmt.Sprintf("%d (a) b) S 1 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 %d 99", pid, 1000+pid))
	return dir
}

func qemu(name string) string {
	return "/usr/bin/qemu-system-x86_64\x00-name\x00guest=" + name + ",debug-threads=on\x00-uuid\x00uuid-" + name + "\x00"
}

func TestFind(t *testing.T) {
	n := newNode(t)
	n.process(20, qemu("b"), gate3)
	n.process(21, qemu("a"), gate12)
	n.process(22, qemu("deleted"), gate3+"//deleted")
	n.process(30, qemu("host"), "")                                                         // in no container
	n.process(31, qemu("other"), "8:1 /state/other/000003/nova-libvirt/gate")               // another node's
	n.process(32, qemu("gone"), "8:1 /state/generations/000099/nova-libvirt/gate//deleted") // with its generation
	n.process(33, "libvirtd\x00-name\x00guest=x\x00-uuid\x00y\x00", gate3)                  // no guest
	n.process(34, "", gate3)                                                                // kernel thread, zombie
	n.process(35, qemu("short"), "8:1 /gate")
	n.process(36, qemu("word"), "8:1 /state/generations/latest/nova-libvirt/gate")
	// Any user's process may pretend, in namespaces of its own: with another file system, and any names in it.
	n.process(37, qemu("disk"), "0:37 /state/generations/000003/nova-libvirt/gate")
	n.process(38, qemu("names"), "0:37 /state/generations/"+strings.Repeat("0", 1000)+"3/nova-libvirt/gate")
	n.process(44, qemu("up"), "8:1 /state/generations/000003/nova-libvirt/../gate")
	n.file(n.process(39, qemu("long"), gate3)+"/mountinfo", strings.Repeat("x", 1<<20))
	n.dir(n.Host.Proc + "/40") // exited while it was inspected
	if err := os.Remove(n.process(41, qemu("ends"), gate3) + "/stat"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(n.process(42, qemu("ends"), gate3) + "/mountinfo"); err != nil {
		t.Fatal(err)
	}

	got, err := n.Find()
	if err != nil {
		t.Fatal(err)
	}
	want := []Guest{
		{"a", "uuid-a", 21, 1021, 12, "nova-libvirt"},
		{"b", "uuid-b", 20, 1020, 3, "nova-libvirt"},
		{"deleted", "uuid-deleted", 22, 1022, 3, "nova-libvirt"},
		{"gone", "uuid-gone", 32, 1032, 99, "nova-libvirt"},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got, err := n.Among([]int{20, 30, 99}); err != nil || len(got) != 1 || got[0].PID != 20 {
		t.Errorf("among some: %v, %v", got, err)
	}
	// A file that cannot be parsed is an error, so that no guest is missed.
	n.file(n.process(50, qemu("c"), gate3)+"/stat", "50 (c) S")
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
	canary := "qemu-system-x86_64\x00-name\x00guest=" + CanaryName + "\x00-uuid\x00" + CanaryUUID + "\x00"
	n.process(20, canary, gate3)
	n.process(21, canary, "8:1 /state/other/000003/nova-libvirt/gate")
	n.process(22, qemu(CanaryName), gate3)
	n.process(23, strings.Replace(canary, CanaryName, "vm", 1), gate3)
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

// The state directory may be lost while guests run.
func TestFindWithoutGenerations(t *testing.T) {
	n := newNode(t)
	n.process(20, qemu("a"), gate3+"//deleted")
	n.process(21, qemu("other"), "8:1 /other/generations/000003/nova-libvirt/gate//deleted")
	for _, gone := range []string{n.Generations, filepath.Dir(n.Generations) + "/000003"} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
		if got, err := n.Find(); err != nil || len(got) != 1 || got[0].Generation != 3 {
			t.Errorf("got %v, %v", got, err)
		}
	}
	n.Generations = "/no/such/state/generations" // of the file system at /
	if got, err := n.Find(); err != nil || len(got) > 0 {
		t.Errorf("other generations: got %v, %v", got, err)
	}
}

// What looks like a guest is one only if its service starts guests. In a container that
// does, it is one wherever its gate was mounted from.
func TestFindOfHosts(t *testing.T) {
	n := newNode(t)
	n.process(20, qemu("a"), gate3)
	n.process(21, qemu("b"), gate12)
	n.process(22, qemu("moved"), "8:1 /old/generations/000003/nova-libvirt/gate")
	n.process(23, "tail\x00", gate3)
	n.Hosts = func(generation int, service string) bool { return generation == 12 && service == "nova-libvirt" }
	if got, err := n.Find(); err != nil || len(got) != 1 || got[0].Name != "b" {
		t.Errorf("got %v, %v", got, err)
	}
	got, err := n.Inside([]int{20, 21, 22, 23})
	if err != nil || len(got) != 3 || got[0].Generation != 3 || got[2].Generation != 0 {
		t.Errorf("inside: got %v, %v", got, err)
	}
}

// Guests of the containers that kolla-ansible created are recognised by Docker's directory of the
// container.
func TestFindAdopted(t *testing.T) {
	n := newNode(t)
	docker := filepath.Join(filepath.Dir(n.Generations), "docker/containers")
	n.dir(docker)
	n.Adopted = Adopted{Directory: docker, Services: map[string]string{"abc": "nova-libvirt"}, Libvirt: "nova-libvirt"}
	n.Hosts = func(generation int, service string) bool { return generation == 0 && service == "nova-libvirt" }
	hostname := func(pid int, name, at string) {
		t.Helper()
		dir := n.process(pid, qemu(name), "")
		n.file(dir+"/mountinfo", fmt.Sprintf("100 99 0:50 / / rw - overlay overlay rw\n101 100 %s /etc/hostname rw - ext4 /dev/sda1 rw\n", at))
	}
	hostname(20, "a", "8:1 /state/docker/containers/abc/hostname")
	hostname(21, "removed", "8:1 /state/docker/containers/abc/hostname//deleted")
	hostname(22, "replaced", "8:1 /state/docker/containers/abd/hostname//deleted") // kolla-ansible had another one before
	hostname(30, "other", "8:1 /state/docker/containers/abd/hostname")             // another container
	hostname(31, "disk", "0:37 /state/docker/containers/abc/hostname")             // a user's own file system
	hostname(32, "elsewhere", "8:1 /home/docker/containers/abc/hostname")
	hostname(33, "file", "8:1 /state/docker/containers/abc/hosts")
	hostname(35, "deeper", "8:1 /state/docker/containers/abd/x/hostname//deleted")
	n.process(34, qemu("host"), "")
	got, err := n.Find()
	want := []Guest{{"a", "uuid-a", 20, 1020, 0, "nova-libvirt"}, {"removed", "uuid-removed", 21, 1021, 0, "nova-libvirt"}, {"replaced", "uuid-replaced", 22, 1022, 0, "nova-libvirt"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	n.Adopted.Directory += "/none"
	if got, err := n.Find(); err != nil || len(got) != 0 {
		t.Errorf("without Docker's directory: %v, %v", got, err)
	}
	n.Adopted = Adopted{}
	if got, err := n.Find(); err != nil || len(got) != 0 {
		t.Errorf("on a node that was not taken over: %v, %v", got, err)
	}
}
