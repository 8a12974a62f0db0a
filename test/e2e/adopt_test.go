package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/plan"
	"github.com/kollet/kollet/test/kolla"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// kollaNode is a node that kolla-ansible runs.
type kollaNode struct {
	*testNode
	*kolla.Ansible
}

func newKollaNode(t *testing.T, p *protocol) *kollaNode {
	n := newNodeOn(t, p.engine)
	return &kollaNode{n, kolla.On(n.Node, p.engine)}
}

// TestAdopt takes nodes over from kolla-ansible, whose containers run on Docker.
func TestAdopt(t *testing.T) {
	p := &protocol{engine: nodetest.OnDocker(machine.Dockerd(t)), registry: machine.NewRegistry(t)}
	for name, scenario := range map[string]func(*testing.T, *protocol){
		"containers of kolla-ansible become a node file":       proposesAdoption,
		"a node of kolla-ansible is taken over and given back": adopts,
		"kollet is killed while it takes a node over":          killedAdoption,
		"what a node cannot be taken over with":                refusesAdoption,
	} {
		t.Run(name, func(t *testing.T) { scenario(t, p) })
	}
	t.Run("another engine has none of its containers", func(t *testing.T) {
		n := newNodeOn(t, nodetest.OnContainerd(machine.NewContainerd(t)))
		n.Write("/etc/kollet/node.yaml", "engine: containerd\n")
		contains(t, n.Must(2, "adopt", "--plan").Stderr, "kolla-ansible's containers cannot be taken over on containerd")
	})
}

// proposesAdoption: the containers of kolla-ansible become a node file, and its plan has the same
// settings. kollet runs nothing beside them.
func proposesAdoption(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	image := p.registry.Addr + "/test/kolla:v1"
	k := newKollaNode(t, p)
	k.Docker("pull", image)
	k.Write("/etc/kolla/nova-compute/nova.conf", "one\n")
	id := k.Create("nova_compute", image, `{
  "command": "/bin/tiny serve 127.0.0.1:7001 /etc/nova/nova.conf",
  "config_files": [{"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/nova.conf", "owner": "nova", "perm": "0600"}],
  "permissions": [{"path": "/var/lib/nova", "owner": "nova:nova", "recurse": true}]
}`, append(kolla.Health("healthcheck_answer 127.0.0.1:7001"),
		"--privileged", "--ipc", "host", "--volume", "/etc:/host:ro", "--volume", "nova_compute:/var/lib/nova/", "--memory", "512m")...)
	if got := answer(t, "127.0.0.1:7001"); got != "one" {
		t.Fatalf("kolla-ansible's container answers %q", got)
	}
	k.Create("kolla_toolbox", image, `{"command": "sleep infinity"}`)

	var proposed adopt.Proposal
	k.Ask(&proposed, "adopt", "--plan", "--write")
	if len(proposed.Services) != 1 || proposed.Services[0].ID != id || len(proposed.Stays) != 1 {
		t.Fatalf("%+v", proposed)
	}
	var planned plan.Plan
	k.Ask(&planned, "plan")
	text, _ := json.Marshal(planned)
	t.Logf("%s\n%s\n%s", proposed.NodeFile, text, k.Must(0, "plan").Stdout)
	if len(planned.Changes) != 1 || planned.Changes[0].Service != "nova-compute" || planned.Changes[0].Image.Pull {
		t.Fatalf("plan: %s", text)
	}
	contains(t, string(text), `"path":"/etc/nova/nova.conf"`)

	// Nothing is started beside it.
	contains(t, k.Kollet("doctor").Stdout, "kolla-ansible runs nova_compute")
	contains(t, k.Must(1, "bootstrap").Stderr, "kolla-ansible runs nova_compute, which the node file's services would run beside")
	if state := k.Docker("inspect", "--format", "{{.Id}} {{.State.Status}}", "nova_compute"); state != id+" running" {
		t.Errorf("kolla-ansible's container: %s", state)
	}

	// Without kolla-ansible's container, the node file is one that works, with its volume.
	k.Docker("stop", "nova_compute")
	k.Docker("rename", "nova_compute", "nova_compute_old")
	k.Must(0, "bootstrap")
	k.Healthy(2) // the one that was refused had a number, too
	if got := answer(t, "127.0.0.1:7001"); got != "one" {
		t.Errorf("the service answers %q", got)
	}
	now := k.Docker("inspect", "--format", "{{.HostConfig.Privileged}} {{.HostConfig.IpcMode}} {{.HostConfig.Memory}} {{.Config.Healthcheck.Test}} {{.HostConfig.NetworkMode}}", "nova-compute")
	if now != "true host 536870912 [CMD healthcheck_answer 127.0.0.1:7001] host" {
		t.Errorf("settings: %s", now)
	}
	contains(t, k.Docker("inspect", "--format", "{{json .Mounts}}", "nova-compute"), `"Name":"nova_compute"`, `"Name":"kolla_logs"`, `"Destination":"/host"`)
	k.Must(0, "verify")
}

// tiny creates a container of kolla-ansible that runs a small service, which answers a word.
func (k *kollaNode) tiny(name, image, port, word string) string {
	k.T.Helper()
	k.Write(kolla.Dir(name)+"/tiny.conf", word+"\n")
	return k.Create(name, image, fmt.Sprintf(`{
  "command": "/bin/tiny serve 127.0.0.1:%s /etc/tiny.conf",
  "config_files": [{"source": "/var/lib/kolla/config_files/tiny.conf", "dest": "/etc/tiny.conf", "owner": "nova", "perm": "0600"}],
  "permissions": [{"path": "/var/lib/nova", "owner": "nova:nova"}]
}`, port), append(kolla.Health("healthcheck_answer 127.0.0.1:"+port), "--volume", "nova_compute:/var/lib/nova/")...)
}

// adopts: services replace the containers of kolla-ansible, which run again as they were after a
// failure and after a rollback to generation 0.
func adopts(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	image := p.registry.Addr + "/test/kolla:v1"
	k := newKollaNode(t, p)
	k.Docker("pull", image)
	// iscsid has the name of its service.
	nova, iscsid := k.tiny("nova_compute", image, "7001", "one"), k.tiny("iscsid", image, "7002", "two")
	k.Docker("update", "--restart", "unless-stopped", "iscsid")
	answer(t, "127.0.0.1:7001")
	answer(t, "127.0.0.1:7002")
	before := k.State("nova_compute") + k.State("iscsid")
	if want := nova + " running no" + iscsid + " running unless-stopped"; before != want {
		t.Fatalf("before: %s", before)
	}
	asBefore := func(when string) {
		t.Helper()
		if now := k.State("nova_compute") + k.State("iscsid"); now != before {
			t.Errorf("%s: %s, want %s", when, now, before)
		}
		for port, word := range map[string]string{"7001": "one", "7002": "two"} {
			if got := answer(t, "127.0.0.1:"+port); got != word {
				t.Errorf("%s: %s answers %q", when, port, got)
			}
		}
	}

	k.Must(2, "rollback", "0")
	contains(t, k.Must(2, "adopt", "--write").Stderr, "--write belongs to --plan")
	asBefore("after flags that mean nothing")
	// A new container that does not become healthy: the old ones run again.
	k.Must(0, "adopt", "--plan", "--write")
	file := k.read("/etc/kollet/node.yaml")
	k.Write("/etc/kollet/node.yaml", strings.Replace(file, "exec: [healthcheck_answer, \"127.0.0.1:7001\"], interval: 1s, start_period: 3m", "exec: [healthcheck_answer, \"127.0.0.1:7003\"], interval: 1s, start_period: 2s", 1))
	contains(t, k.Must(1, "adopt").Stderr, "the node is back on generation 0")
	asBefore("after a failure")

	k.Write("/etc/kollet/node.yaml", file)
	o := k.Must(0, "adopt")
	t.Log(o.All())
	k.Healthy(2)
	k.Must(0, "verify")
	if now := k.State("nova_compute") + k.State("iscsid-g0"); now != nova+" exited no"+iscsid+" exited no" {
		t.Errorf("kolla-ansible's containers: %s", now)
	}
	for _, name := range []string{"nova-compute", "iscsid"} {
		contains(t, k.Docker("inspect", "--format", "{{json .Config.Labels}}", name), "org.kollet.generation")
	}
	for _, flags := range [][]string{nil, {"--plan"}} {
		contains(t, k.Must(2, append([]string{"adopt"}, flags...)...).Stderr, "kollet runs this node already")
	}

	// Another upgrade, and garbage collection, keep them.
	k.Write("/etc/kolla/nova-compute/tiny.conf", "three\n")
	k.Must(0, "upgrade")
	k.Must(0, "gc")
	if got := answer(t, "127.0.0.1:7001"); got != "three" {
		t.Errorf("after an upgrade it answers %q", got)
	}
	k.Write("/etc/kolla/nova-compute/tiny.conf", "one\n")
	t.Log(k.Must(0, "rollback", "0").All())
	asBefore("after the rollback")
	k.Healthy(4)
	k.Must(0, "verify")
	contains(t, k.Must(0, "rollback", "0").Stdout, "nothing to do")
	for _, command := range []string{"upgrade", "bootstrap"} { // as a playbook for the whole fleet does
		contains(t, k.Must(2, command).Stderr, "kolla-ansible runs this node", "`kollet adopt` takes it over")
	}
	asBefore("after an upgrade that nobody meant")

	k.Must(0, "adopt")
	k.Healthy(5)
	k.Must(0, "rollback")
	asBefore("after the second rollback")
	contains(t, k.Must(2, "rollback").Stderr, "kolla-ansible runs this node")
	contains(t, k.Must(0, "plan").Stderr, "kolla-ansible runs this node")
	k.Must(0, "rollback", "5")
	k.Healthy(7)
	oldOneStartedAgain(t, k)
	k.Must(0, "rollback", "6")
	asBefore("after a rollback to a generation of kolla-ansible")
}

// oldOneStartedAgain starts a container of generation 0 beside its successor, at another port.
func oldOneStartedAgain(t *testing.T, k *kollaNode) {
	t.Helper()
	const config = "/etc/kolla/nova-compute/config.json"
	was := k.read(config)
	k.Write(config, strings.Replace(was, "7001", "7005", 1))
	k.Docker("start", "nova_compute")
	answer(t, "127.0.0.1:7005")
	contains(t, k.Kollet("doctor").Stdout, "kolla-ansible's container nova_compute was started again, beside nova-compute")
	contains(t, k.Must(1, "verify").Stdout, "was started again manually")
	k.Must(0, "upgrade")
	if now := k.State("nova_compute"); !strings.HasSuffix(now, " exited no") {
		t.Errorf("after an upgrade: %s", now)
	}
	k.Write(config, was)
}

// killedAdoption kills kollet after records of an adoption, and of the rollback to generation 0. Each time, the recovery leaves the node with kolla-ansible's containers as they
// were, or with kollet's.
func killedAdoption(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	k := newKollaNode(t, p)
	k.Docker("pull", p.registry.Addr+"/test/kolla:v1")
	k.tiny("nova_compute", p.registry.Addr+"/test/kolla:v1", "7001", "one")
	k.Docker("update", "--restart", "unless-stopped", "nova_compute")
	answer(t, "127.0.0.1:7001")
	before := k.State("nova_compute")
	k.Must(0, "adopt", "--plan", "--write")
	file := k.read("/etc/kollet/node.yaml")
	k.Write("/etc/kollet/node.yaml", strings.Replace(file, "start_period: 3m", "start_period: 3m, stable: 100ms", 1))

	// adopted requires that exactly one of the two runs, and reports which.
	adopted := func(record int) bool {
		t.Helper()
		if k.Status().Interrupted {
			k.Must(0, "recover")
		}
		if got := answer(t, "127.0.0.1:7001"); got != "one" {
			t.Fatalf("record %d: the service answers %q", record, got)
		}
		s := k.Status()
		if len(s.Services) == 1 && s.Services[0].Generation == 0 { // its container's
			if now := k.State("nova_compute"); now != before {
				t.Fatalf("record %d: kolla-ansible's container: %s, want %s", record, now, before)
			}
			if runs := k.Docker("ps", "--quiet", "--filter", "label=org.kollet.service"); runs != "" {
				t.Fatalf("record %d: containers of kollet run beside it: %s", record, runs)
			}
			return false
		}
		if !s.Healthy {
			t.Fatalf("record %d: %+v", record, s)
		}
		if now := k.State("nova_compute"); !strings.HasSuffix(now, " exited no") {
			t.Fatalf("record %d: kolla-ansible's container: %s", record, now)
		}
		return true
	}
	for _, way := range []struct {
		there, back []string
		taken       bool // at its end
	}{
		{[]string{"adopt"}, []string{"rollback", "0"}, true},
		{[]string{"rollback", "0"}, []string{"adopt"}, false},
	} {
		committed := 0
		for record := 2; ; record += nodetest.RecordsApart() {
			o, killed := k.KilledAt(record, way.there...)
			done := adopted(record) == way.taken
			if !killed {
				if o.Code != 0 || !done || record < 12 || committed > 4 || committed == 0 && nodetest.Long() {
					t.Fatalf("%q: %d records, %d after the commit, exit status %d\n%s", way.there, record, committed, o.Code, o.All())
				}
				break
			}
			if done {
				committed++
				k.Must(0, way.back...)
				adopted(record)
			}
		}
	}
}
