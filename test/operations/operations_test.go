package operations

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/services"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// cloudNode is a compute node in a cloud.
type cloudNode struct {
	*nodetest.Compute
	cloud   *cloud.Cloud
	api     *cloud.Client
	quiesce string // in the node file
}

func TestMain(m *testing.M) { machine.Main(m) }

// TestOperations upgrades a node in a cloud while Nova and libvirt are doing something
// with its servers.
func TestOperations(t *testing.T) {
	nodetest.ShareRun(t)
	control := cloud.New(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Built(t, "registry")))
	n := &cloudNode{Compute: nodetest.NewCompute(t, "linuxbridge", nodetest.OnDocker(machine.Dockerd(t)), registry), cloud: control, api: control.Client(t)}
	control.Connect(n.Compute)
	n.Vars["physical_interface_mappings"] = "physnet1:" + nodetest.Interface
	n.configure(nodetest.OldVersion)
	begun := time.Now()
	n.Must(0, "bootstrap")
	n.api.AwaitCompute("compute-1", begun.Add(-time.Second))
	server := n.api.CreateServer("web", "compute-1", "")
	n.api.AwaitActive(server)
	for _, part := range []struct {
		name string
		test func(*cloudNode, string)
	}{
		{"a build is waited for", buildWaitedFor},
		{"a snapshot is waited for", snapshotWaitedFor},
		{"an upgrade is deferred", upgradeDeferred},
		{"an upgrade is refused during a block job", refusedDuringBlockJob},
		{"an operator's disabled service stays disabled", operatorDisabled},
		{"the service is enabled after a kill at any record", enabledAfterKill},
		{"the service is enabled when Nova answers again", enabledLater},
		{"a node that does not report to Nova is rolled back", doesNotReport},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			inner := *n
			inner.Compute = n.In(t)
			part.test(&inner, server)
		}) {
			return
		}
		if now := n.api.Server(server); now.Status != "ACTIVE" {
			t.Fatalf("after %s the server is %s", part.name, now.Status)
		}
	}
}

// configure writes the node file; tag is that of nova-compute's image.
func (n *cloudNode) configure(tag string) {
	n.T.Helper()
	n.Images["nova-compute"] = tag
	n.Settings = "openstack: {username: nova, password: nova_password}\nquiesce: {" + n.quiesce + "}\n"
	n.Configure()
}

// next is the other version of nova-compute.
func (n *cloudNode) next() string {
	if strings.HasSuffix(n.Service("nova-compute").Image, nodetest.NewVersion) {
		return nodetest.OldVersion
	}
	return nodetest.NewVersion
}

// computeService returns what Nova says of the node's compute service.
func (n *cloudNode) computeService() services.Service {
	n.T.Helper()
	for _, s := range n.api.ComputeServices() {
		if s.Binary == "nova-compute" && s.Host == "compute-1" {
			return s
		}
	}
	n.T.Fatal("Nova does not list the compute service")
	return services.Service{}
}

// enabled requires that the compute service is enabled.
func (n *cloudNode) enabled() {
	n.T.Helper()
	if s := n.computeService(); s.Status != "enabled" || s.DisabledReason != "" {
		n.T.Fatalf("the compute service is %s: %q", s.Status, s.DisabledReason)
	}
}

// buildWaitedFor begins builds just before the upgrade quiesces.
func buildWaitedFor(n *cloudNode, _ string) {
	n.configure(n.next())
	generation := n.Status().Generation
	upgrade := n.begin("upgrade")
	upgrade.await(n.T, "render: ")
	var built []string
	for i := range 3 {
		built = append(built, n.api.CreateServer(fmt.Sprintf("new-%d", i), "compute-1", ""))
	}
	upgrade.ends(n.T, 0)
	n.T.Logf("upgrade:\n%s", upgrade.text())
	for _, id := range built {
		n.api.AwaitActive(id)
		n.api.Delete(id)
	}
	n.Healthy(generation + 1)
	n.enabled()
}

// snapshot begins a snapshot of a server, which cannot end until the returned function is
// called: the image service is frozen.
func (n *cloudNode) snapshot(server string) (finish func()) {
	n.T.Helper()
	_, err := servers.CreateImage(n.ctx(), n.api.Compute, server, servers.CreateImageOpts{Name: "snapshot"}).ExtractImageID()
	check(n.T, err)
	n.glance("STOP")
	finish = sync.OnceFunc(func() {
		n.glance("CONT")
		for deadline := time.Now().Add(cloud.Patience); n.api.Server(server).TaskState != ""; time.Sleep(time.Second) {
			if time.Now().After(deadline) {
				n.T.Fatalf("the snapshot does not end: %+v", n.api.Server(server))
			}
		}
	})
	n.T.Cleanup(finish)
	if task := n.api.Server(server).TaskState; !strings.HasPrefix(task, "image_") {
		n.T.Fatalf("the server's task is %q", task)
	}
	return finish
}

// glance sends a signal to the image service.
func (n *cloudNode) glance(signal string) {
	n.T.Helper()
	if out, err := exec.Command("docker", "--host", n.cloud.Engine.Socket, "exec", "controller", "pkill", "-"+signal, "-f", "glance-api").CombinedOutput(); err != nil {
		n.T.Fatalf("send %s to glance-api: %v: %s", signal, err, out)
	}
}

// snapshotWaitedFor upgrades a node during a live snapshot.
func snapshotWaitedFor(n *cloudNode, server string) {
	n.configure(n.next())
	generation := n.Status().Generation
	finish := n.snapshot(server)
	upgrade := n.begin("upgrade")
	upgrade.await(n.T, fmt.Sprintf("waiting for 1 operation: server \"web\" (%s) is image_", server))
	if s := n.computeService(); s.Status != "disabled" || s.DisabledReason != fmt.Sprintf("kollet: upgrade to generation %d", generation+1) {
		n.T.Errorf("while it waits the compute service is %s: %q", s.Status, s.DisabledReason)
	}
	var now agent.Status
	n.Ask(&now, "status")
	if now.Disabled == nil || now.Generation != generation {
		n.T.Errorf("status while it waits: %+v", now)
	}
	finish()
	upgrade.ends(n.T, 0)
	n.T.Logf("upgrade:\n%s", upgrade.text())
	n.Healthy(generation + 1)
	n.enabled()
	if images := n.snapshots(); images["snapshot"] != "active" {
		n.T.Errorf("images: %v", images)
	}
}

// snapshots returns the status of each image by name.
func (n *cloudNode) snapshots() map[string]string {
	n.T.Helper()
	page, err := images.List(n.api.Image, nil).AllPages(n.ctx())
	check(n.T, err)
	all, err := images.ExtractImages(page)
	check(n.T, err)
	found := map[string]string{}
	for _, image := range all {
		found[image.Name] = string(image.Status)
	}
	return found
}

func (n *cloudNode) ctx() context.Context { return context.WithoutCancel(n.T.(*testing.T).Context()) }

func upgradeDeferred(n *cloudNode, server string) {
	n.quiesce = "wait: 3s, on_busy: defer"
	n.configure(n.next())
	before, generation := n.Service("nova-compute"), n.Status().Generation
	finish := n.snapshot(server)
	o := n.Must(6, "-o", "json", "upgrade")
	var answer struct {
		Error  string
		Exit   int
		Result struct{ Outcome journal.Outcome }
	}
	check(n.T, json.Unmarshal([]byte(o.Stdout), &answer))
	if answer.Exit != 6 || answer.Result.Outcome != journal.Deferred {
		n.T.Errorf("%s", o.All())
	}
	contains(n.T, answer.Error, "nothing was touched: deferred: 1 operation: server \"web\"", "is image_", "run the upgrade again later")
	var history []agent.Entry
	n.Ask(&history, "history")
	if history[0].Outcome != journal.Deferred {
		n.T.Errorf("history: %+v", history[0])
	}
	if now := n.Service("nova-compute"); now.Container != before.Container || now.PID != before.PID {
		n.T.Errorf("nova-compute was replaced: %+v", now)
	}
	n.Healthy(generation)
	n.enabled()
	// The same, refused.
	n.quiesce = "wait: 0s, on_busy: refuse"
	n.configure(n.next())
	contains(n.T, n.Must(1, "upgrade").Stderr, "nothing was touched: quiesce: 1 operation: server \"web\"", "kollet upgrade --force")
	n.enabled()
	finish()
}

// refusedDuringBlockJob copies a disk with libvirt, of which Nova does not know.
func refusedDuringBlockJob(n *cloudNode, server string) {
	n.quiesce = "wait: 2s"
	n.configure(n.next())
	contains(n.T, n.virsh("blockcopy", server, "vda", "--dest", "/var/lib/nova/instances/copy", "--bandwidth", "1024", "--bytes", "--transient-job", "--format", "raw"), "Block Copy started")
	contains(n.T, n.Must(1, "upgrade").Stderr, "1 operation: guest instance-", "("+server+") has a job: Block Copy")
	n.enabled()
	n.virsh("blockjob", server, "vda", "--abort")
	n.Must(0, "upgrade")
	n.enabled()
}

func operatorDisabled(n *cloudNode, _ string) {
	n.configure(n.next())
	id := n.computeService().ID
	check(n.T, services.Update(n.ctx(), n.api.Compute, id, services.UpdateOpts{Status: services.ServiceDisabled, DisabledReason: "broken disk"}).Err)
	contains(n.T, n.Must(0, "upgrade").Stderr, `the compute service was disabled before ("broken disk") and stays so`)
	if s := n.computeService(); s.Status != "disabled" || s.DisabledReason != "broken disk" {
		n.T.Errorf("the compute service is %s: %q", s.Status, s.DisabledReason)
	}
	check(n.T, services.Update(n.ctx(), n.api.Compute, id, services.UpdateOpts{Status: services.ServiceEnabled}).Err)
}

// killedFrom is the record with which quiesce begins.
const killedFrom = 12

func enabledAfterKill(n *cloudNode, _ string) {
	disabled := 0
	for at := killedFrom; ; at++ {
		n.configure(n.next())
		o, killed := n.killedAt(at, "upgrade")
		if s := n.computeService(); s.Status == "disabled" {
			contains(n.T, s.DisabledReason, "kollet: upgrade to generation ")
			disabled++
		}
		if !killed {
			contains(n.T, o, "the compute service is enabled again")
			break
		}
		recovered := n.Must(0, "recover")
		n.T.Logf("killed at record %d: %s", at, recovered.All())
		n.enabled()
		n.Healthy(n.Status().Generation)
	}
	if disabled < 5 {
		n.T.Errorf("the compute service was disabled at %d records only", disabled)
	}
	n.enabled()
}

// enabledLater has Nova's API stopped when an interrupted upgrade is recovered.
func enabledLater(n *cloudNode, _ string) {
	n.configure(n.next())
	if _, killed := n.killedAt(killedFrom+2, "upgrade"); !killed {
		n.T.Fatal("the upgrade was not killed")
	}
	n.cloud.Service("stop", "nova-api")
	o := n.Must(0, "recover")
	contains(n.T, o.Stderr, "kollet disabled the compute service and could not enable it again: ", "`openstack compute service set --enable compute-1 nova-compute`")
	n.cloud.Service("start", "nova-api")
	n.Healthy(n.Status().Generation)
	for deadline := time.Now().Add(cloud.Patience); ; time.Sleep(time.Second) {
		if o := n.Must(0, "recover"); strings.Contains(o.Stderr, "the compute service is enabled again") {
			break
		}
		if time.Now().After(deadline) {
			n.T.Fatal("the compute service is not enabled")
		}
	}
	n.enabled()
}

// doesNotReport stops the conductor: nova-compute connects to the broker, so that its
// probe passes, but it does not get further.
func doesNotReport(n *cloudNode, _ string) {
	n.configure(n.next())
	generation := n.Status().Generation
	n.cloud.Service("stop", "nova-conductor")
	o := n.Must(1, "upgrade")
	n.cloud.Service("start", "nova-conductor")
	contains(n.T, o.Stderr, fmt.Sprintf("the node is back on generation %d: nova-compute: Nova ", generation), " 2m0s after its cutover")
	n.api.AwaitCompute("compute-1", time.Now())
	n.Healthy(generation)
	n.enabled()
}

// virsh runs virsh in the node's libvirt.
func (n *cloudNode) virsh(args ...string) string {
	n.T.Helper()
	return n.Must(0, append([]string{"exec", "nova-libvirt", "--", "virsh"}, args...)...).Stdout
}

// killedAt kills kollet after a record of its journal, and reports whether it got there.
func (n *cloudNode) killedAt(record int, args ...string) (string, bool) {
	n.T.Helper()
	faulty := *n.Node
	faulty.Program = nodetest.Program(n.T, "kollet-faults")
	faulty.Env = append(faulty.Env, fmt.Sprintf("KOLLET_KILL_AT_RECORD=%d", record))
	cmd := faulty.Command(args...)
	out, _ := cmd.CombinedOutput()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return string(out), status.Signaled() && status.Signal() == syscall.SIGKILL
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contains requires each of the words in a text.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Fatalf("%q is missing in:\n%s", word, text)
		}
	}
}
