package e2e

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/adopt"
)

// refusesAdoption: nothing is touched if a service could not work, or would take the place of what
// is neither kollet's nor kolla-ansible's. What cannot be kept is said.
func refusesAdoption(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	pushKolla(t, p, "v2")
	image, later := p.registry.Addr+"/test/kolla:v1", p.registry.Addr+"/test/kolla:v2"
	k := newKollaNode(t, p)
	k.Docker("pull", image)
	k.Docker("pull", later)
	nova := k.tiny("nova_compute", image, "7001", "one")
	k.Docker("update", "--restart", "on-failure:7", "nova_compute")
	answer(t, "127.0.0.1:7001")
	untouched := func(stderr, want string) {
		t.Helper()
		contains(t, stderr, "nothing was touched", want)
		if state := k.State("nova_compute"); state != nova+" running on-failure" {
			t.Errorf("kolla-ansible's container: %s", state)
		}
	}

	// A container with the service's name is no drift: nobody knows what it is for.
	other := k.Docker("run", "--detach", "--name", "nova-compute", "--network", "host", "--entrypoint", "sleep", image, "1000")
	t.Cleanup(func() { k.Docker("rm", "--force", other) })
	untouched(k.Must(1, "adopt").Stderr, "a container named nova-compute exists that kollet did not create")
	if state := k.State("nova-compute"); !strings.HasPrefix(state, other+" running") {
		t.Errorf("the other container: %s", state)
	}
	k.Docker("rename", "nova-compute", "other")

	// What a service needs has to answer, although this is the node's first generation.
	file := k.read("/etc/kollet/node.yaml")
	k.Write("/etc/kollet/node.yaml", strings.Replace(file, "    healthcheck:", "    requires: [{tcp: \"127.0.0.1:7009\"}]\n    healthcheck:", 1))
	untouched(k.Must(1, "adopt").Stderr, "127.0.0.1:7009")
	contains(t, k.Must(0, "status").Stdout, "kolla-ansible's containers", "run `kollet adopt`")

	// A node file with another image than the one that runs is not adopted without a word.
	k.Write("/etc/kollet/node.yaml", strings.Replace(file, `tag: "v1"`, `tag: "v2"`, 1))
	contains(t, k.Must(0, "adopt").All(), "the node file's image is "+later+", that of kolla-ansible's container nova_compute is "+image)
	k.Must(0, "rollback", "0")
	if policy := k.Docker("inspect", "--format", "{{.HostConfig.RestartPolicy}}", nova); policy != "{on-failure 7}" {
		t.Errorf("restart policy after the rollback: %s", policy)
	}

	k.Must(0, "adopt")
	failsToReturn(t, k)

	// Once generation 0 is gone, there is no way back to it. What kolla-ansible creates again has to stop:
	// the node cannot be taken over a second time.
	k.Docker("rm", "nova_compute")
	k.tiny("nova_compute", image, "7005", "again")
	k.Write("/etc/kollet/node.yaml", strings.Replace(k.read("/etc/kollet/node.yaml"), "start_period: 3m", "start_period: 4m", 1))
	const remedy = "`docker stop nova_compute`; to leave them to kolla-ansible"
	contains(t, k.Must(1, "upgrade").Stderr, "kolla-ansible runs nova_compute", remedy)
	contains(t, k.Kollet("doctor").Stdout, remedy)
	contains(t, k.Must(1, "rollback", "0").Stderr, "kolla-ansible's container of nova-compute was removed or created again; docs/kolla.md")
	k.Docker("rm", "--force", "nova_compute")

	// What would be lost or could not run again.
	k.Create("nova_ssh", image, `{"command": "/bin/tiny serve 127.0.0.1:7003"}`, "--rm", "--volume", "/data")
	k.Create("iscsid", image, `{"command": "/bin/tiny serve 127.0.0.1:7004"}`, "--hostname", "other", "--shm-size", "128m", "--init", "--dns", "192.0.2.1")
	answer(t, "127.0.0.1:7003")
	answer(t, "127.0.0.1:7004")
	var proposed adopt.Proposal
	k.Must(1, "adopt", "--plan")
	k.Ask(&proposed, "adopt", "--plan", "--exclude", "nova_ssh")
	contains(t, proposed.NodeFile, "iscsid: it loses these settings: dns, hostname, init, shm-size\n")
	o := k.Must(1, "adopt", "--plan").Stdout
	contains(t, o, "nova_ssh: Docker removes it when it stops (--rm)", "nova_ssh: it has a volume without a name at /data")
}

// failsToReturn: a container of kolla-ansible that ends at once is reported with what it said, and one
// whose name is taken is not started.
func failsToReturn(t *testing.T, k *kollaNode) {
	t.Helper()
	const config = "/etc/kolla/nova-compute/config.json"
	was := k.read(config)
	k.Write(config, `{"command": "cat /missing"}`)
	contains(t, k.Must(1, "rollback", "0").Stderr, "process exited", "with exit status 1", "can't open '/missing'")
	k.Write(config, was)

	k.Docker("rename", "nova_compute", "renamed")
	other := k.Docker("create", "--name", "nova_compute", "--network", "host", "--entrypoint", "sleep", k.Docker("inspect", "--format", "{{.Image}}", "renamed"))
	contains(t, k.Must(1, "rollback", "0").Stderr, "nothing was touched", "another container has the name nova_compute", "`docker rm nova_compute`")
	k.Docker("rm", other)
	k.Docker("rename", "renamed", "nova_compute")
	k.Must(0, "verify")
}
