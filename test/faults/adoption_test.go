package faults

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/kolla"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// adoption is a node on which kolla-ansible runs libvirt with a guest of QEMU, or kollet does.
type adoption struct {
	*nodetest.Node
	*kolla.Ansible
	groups machine.Cgroups
	id     string // of kolla-ansible's container
	ticker guest.Guest
}

// TestAdoption kills kollet after every record of an adoption, and of the rollback to
// kolla-ansible. Each time kolla-ansible's libvirt runs afterwards, or kollet's, and the guest has
// continued, although it is in the container's cgroup before.
func TestAdoption(t *testing.T) {
	if os.Getenv(seedVar) == "" {
		t.Skip("make chaos runs it; TestAdopt in test/e2e does the same without QEMU")
	}
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	engine := nodetest.OnDocker(machine.Dockerd(t))
	n := nodetest.New(t, engine)
	t.Cleanup(func() { nodetest.ClearRun(t) })
	a := &adoption{Node: n, Ansible: kolla.On(n, engine), groups: machine.NewCgroups(t)}
	// libvirt starts sooner than without these.
	a.id = a.StartLibvirt(kolla.PushImage(t, registry, "nova-libvirt"), "/dev/null:/usr/bin/qemu-system-i386", "libvirt_cache:/var/cache/libvirt")
	a.Define(kolla.Libvirt, tickerName, tickerUUID)
	a.Docker("exec", kolla.Libvirt, "virsh", "start", tickerName)
	a.ticker, _ = a.Guest(tickerName)
	machine.AwaitTick(t, a.Console(tickerName), 1)
	a.Must(0, "adopt", "--plan", "--write")
	file, err := os.ReadFile(a.Path(node.DefaultNodeFile))
	check(t, err)
	a.Write(node.DefaultNodeFile, strings.Replace(string(file), "interval: 1s, start_period: 3m", "interval: 100ms, start_period: 3m, stable: 50ms", 1))

	adopt, giveBack := []string{"adopt"}, []string{"rollback", "0"}
	a.killedAtEach(adopt, giveBack, true)
	a.killedAtEach(giveBack, adopt, false)
}

const tickerUUID = "8a1b0000-0000-4000-8000-000000000001"

// killedAtEach kills a command after each of its records. back undoes it, and taken says who runs
// libvirt at its end.
func (a *adoption) killedAtEach(command, back []string, taken bool) {
	a.T.Helper()
	for record, committed := 2, 0; ; record++ {
		a.expose()
		o, killed := a.KilledAt(record, command...)
		done := a.settled(record) == taken
		if !killed {
			if o.Code != 0 || !done || record < 12 || committed == 0 {
				a.T.Fatalf("%q: %d records, %d after the commit, exit status %d\n%s", command, record, committed, o.Code, o.All())
			}
			a.T.Logf("%q: killed after %d records, %d of them after the commit", command, record-2, committed)
			return
		}
		if done {
			committed++
			a.expose()
			a.Must(0, back...)
			if a.settled(record) == taken {
				a.T.Fatalf("record %d: %q has not undone %q", record, back, command)
			}
		}
	}
}

// expose puts the guest back into the cgroups of the container that runs, from which kollet has moved
// it.
func (a *adoption) expose() {
	a.T.Helper()
	first, err := strconv.Atoi(a.Docker("inspect", "--format", "{{.State.Pid}}", a.Docker("ps", "--quiet")))
	check(a.T, err)
	into := a.groups.Of(first)
	for hierarchy, at := range a.groups.Of(a.ticker.PID) {
		if strings.Contains(at, "kollet-guests") {
			check(a.T, a.groups.Join(a.ticker.PID, hierarchy, into[hierarchy]))
		}
	}
}

// settled recovers the node, and reports whether kollet runs libvirt. It requires that one libvirt
// runs, which knows the guest, and that the guest has continued.
func (a *adoption) settled(record int) (taken bool) {
	a.T.Helper()
	if a.Status().Interrupted {
		a.Must(0, "recover")
	}
	runs := a.Docker("ps", "--quiet", "--no-trunc")
	if taken = runs != a.id; taken {
		if s := a.Status(); len(s.Services) != 1 || s.Services[0].Container != runs && !strings.HasPrefix(runs, s.Services[0].Container) || !s.Healthy {
			a.T.Fatalf("record %d: container %q runs; status: %+v", record, runs, s)
		}
		if state := a.State(kolla.Libvirt); state != a.id+" exited no" {
			a.T.Fatalf("record %d: kolla-ansible's container: %s", record, state)
		}
	} else if state := a.State(kolla.Libvirt); state != a.id+" running no" {
		a.T.Fatalf("record %d: kolla-ansible's container: %s", record, state)
	}
	a.AwaitAnswer(runs, "virsh", "version", "--daemon")
	if known := a.Docker("exec", runs, "virsh", "list", "--state-running", "--uuid"); known != tickerUUID {
		a.T.Fatalf("record %d: libvirt knows the guests %q", record, known)
	}
	a.Lives(a.ticker)
	return taken
}
