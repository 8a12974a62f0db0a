package computenode

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/kolla"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// kollaNode is a node on which kolla-ansible runs libvirt.
type kollaNode struct {
	*nodetest.Compute
	*kolla.Ansible
	libvirt string                 // the container of the libvirt that runs
	alive   map[string]guest.Guest // by name
	defined int                    // guests
}

// TestAdopt takes a node of kolla-ansible over under its guests, and gives it back. Guests are
// started before, during and after both.
func TestAdopt(t *testing.T) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	image := kolla.PushImage(t, registry, "nova-libvirt")
	c := nodetest.NewCompute(t, "none", nodetest.OnDocker(machine.Dockerd(t)), registry)
	k := &kollaNode{Compute: c, Ansible: kolla.On(c.Node, c.On), libvirt: kolla.Libvirt, alive: map[string]guest.Guest{}}
	id := k.StartLibvirt(image)
	k.start("before")
	k.exposed("before", id)

	k.takenOver("nova-libvirt", "adopt")
	k.Healthy(1)
	k.Must(0, "verify")
	k.live()
	if state := k.State(kolla.Libvirt); state != id+" exited no" {
		t.Errorf("kolla-ansible's container: %s", state)
	}
	k.start("after")
	k.Must(0, "gc")

	k.takenOver(kolla.Libvirt, "rollback", "0")
	k.Healthy(2)
	if state := k.State(kolla.Libvirt); state != id+" running no" {
		t.Errorf("kolla-ansible's container: %s", state)
	}
	k.start("at-last")
	k.live()
}

// define defines a guest.
func (k *kollaNode) define(name string) {
	k.T.Helper()
	k.defined++
	k.Define(k.libvirt, name, fmt.Sprintf("7f5f1a3c-6f0e-4b6e-9f3a-%012d", k.defined))
}

// start defines and starts a guest, and waits until it counts.
func (k *kollaNode) start(name string) {
	k.T.Helper()
	k.define(name)
	k.Docker("exec", k.libvirt, "virsh", "start", name)
	k.born(name)
	machine.AwaitTick(k.T, k.Console(name), 5)
}

// born remembers the process of a guest.
func (k *kollaNode) born(name string) {
	k.T.Helper()
	g, runs := k.Guest(name)
	if !runs {
		k.T.Fatalf("guest %s does not run", name)
	}
	k.alive[name] = g
}

// exposed requires that a guest would end with its container.
func (k *kollaNode) exposed(name, id string) {
	k.T.Helper()
	if cgroup, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", k.alive[name].PID)); err != nil || !strings.Contains(string(cgroup), id) {
		k.T.Fatalf("guest %s is not in the container's cgroup, so nothing would end with it: %v\n%s", name, err, cgroup)
	}
}

// behindInit requires that the libvirt that runs is what an init has started, and that it would end with
// its container, although what serves guests has been moved out.
func (k *kollaNode) behindInit() {
	k.T.Helper()
	id, first, _ := strings.Cut(k.Docker("inspect", "--format", "{{.Id}} {{.State.Pid}}", k.libvirt), " ")
	all, err := host.Real().Processes()
	check(k.T, err)
	all = slices.DeleteFunc(all, func(pid int) bool {
		parent, err := host.Real().Parent(pid)
		return err != nil || strconv.Itoa(parent) != first
	})
	if len(all) != 1 {
		k.T.Fatalf("the first process of %s, %s, has the children %v", k.libvirt, first, all)
	}
	of := func(file string) string { return k.content(fmt.Sprintf("/proc/%d/%s", all[0], file)) }
	if args, cgroup := of("cmdline"), of("cgroup"); !strings.HasPrefix(args, "libvirtd\x00") || !strings.Contains(cgroup, id) || strings.Contains(cgroup, "kollet-guests") {
		k.T.Fatalf("below the init of %s is %q, in the cgroup\n%s", k.libvirt, args, cgroup)
	}
}

func (k *kollaNode) content(path string) string {
	k.T.Helper()
	text, err := os.ReadFile(path)
	check(k.T, err)
	return string(text)
}

// racers are the guests that the old libvirt is asked to start while it is replaced.
const racers = 5

// takenOver runs a command that replaces libvirt by that of another container. When the guests have
// been counted, and nothing has been stopped yet, the old libvirt is asked to start guests, one
// after the other. kollet continues after the first of them. Each of them runs at the end, or can be
// started as if it had not been tried.
func (k *kollaNode) takenOver(by string, command ...string) {
	k.T.Helper()
	var names []string
	for i := range racers {
		names = append(names, fmt.Sprintf("during-%s-%d", command[0], i))
		k.define(names[i])
	}
	starts := k.On.Docker(append([]string{"exec", k.libvirt, "sh", "-c", `for guest; do virsh start "$guest" >&2 && echo "$guest" || exit; done`, "sh"}, names...)...)
	var said strings.Builder
	starts.Stdout, starts.Stderr = k.create("started"), &said
	started := func() []string { return strings.Fields(k.read("started")) }
	o := k.Stepwise(command, func(int) bool {
		if last := k.lastRecord(); last.Event == journal.Intent && last.Step.Kind == journal.CutOver {
			k.behindInit()
			check(k.T, starts.Start())
			k.Await("the first guest is started", func() bool { return len(started()) > 0 })
			k.born(names[0])
			k.exposed(names[0], k.Docker("inspect", "--format", "{{.Id}}", k.libvirt))
		}
		return false
	})
	k.T.Log(o.All())
	if o.Code != 0 || starts.Process == nil {
		k.T.Fatalf("exit status %d", o.Code)
	}
	_ = starts.Wait() // libvirt ends below it
	k.T.Logf("%q: libvirt started %q and said\n%s", command, started(), &said)
	k.libvirt = by
	for _, name := range names {
		state := k.Docker("exec", by, "virsh", "domstate", name)
		_, runs := k.Guest(name)
		switch {
		case runs != (state == "running"):
			k.T.Errorf("guest %s runs: %v, and libvirt calls it %s", name, runs, state)
		case !runs && (k.ticks(name) > 0 || slices.Contains(started(), name)):
			k.T.Errorf("guest %s was started, and is lost", name)
		case !runs: // nothing of the first try is in the way
			k.Docker("exec", by, "virsh", "start", name)
		}
		k.born(name)
	}
}

// create creates a file below the node's root, and read reads one.
func (k *kollaNode) create(name string) *os.File {
	k.T.Helper()
	f, err := os.Create(k.Path(name))
	check(k.T, err)
	k.T.Cleanup(func() { f.Close() })
	return f
}

func (k *kollaNode) read(name string) string {
	k.T.Helper()
	text, err := os.ReadFile(k.Path(name))
	check(k.T, err)
	return string(text)
}

// ticks returns how far a guest has counted.
func (k *kollaNode) ticks(name string) int {
	k.T.Helper()
	ticks, err := machine.Ticks(k.Console(name))
	check(k.T, err)
	return len(ticks)
}

// lastRecord returns the last record of the last journal.
func (k *kollaNode) lastRecord() journal.Record {
	k.T.Helper()
	dir := (&node.Node{Root: k.Root}).Journals()
	all, err := journal.List(dir)
	check(k.T, err)
	records, err := journal.Read(dir, all[len(all)-1])
	check(k.T, err)
	return records[len(records)-1]
}

// live requires that all guests live, and that kollet and libvirt know them.
func (k *kollaNode) live() {
	k.T.Helper()
	if known := k.Guests(); len(known) != len(k.alive) {
		k.T.Errorf("kollet knows the guests %+v", known)
	}
	if list := strings.Fields(k.Docker("exec", k.libvirt, "virsh", "list", "--state-running", "--name")); len(list) != len(k.alive) {
		k.T.Errorf("libvirt knows the guests %q", list)
	}
	for _, g := range k.alive {
		k.Lives(g)
	}
}
