package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/adopt"
	"github.com/kollet/kollet/agent/plan"
)

// kollaNode is a node that kolla-ansible runs: its containers, as its module makes them through
// Docker, and their configuration.
type kollaNode struct {
	*testNode
	p *protocol
}

// docker runs the docker command.
func (k *kollaNode) docker(args ...string) string {
	k.T.Helper()
	out, err := exec.Command("docker", append([]string{"-H", k.p.engine.Address}, args...)...).CombinedOutput()
	if err != nil {
		k.T.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// create creates and starts a container as kolla_container does (kolla-ansible:
// module_utils/kolla_docker_worker.py): the host's network, binds, no restart policy of Docker's,
// the environment and the health check of the role.
func (k *kollaNode) create(name, image, configJSON string, more ...string) string {
	k.T.Helper()
	service := strings.ReplaceAll(name, "_", "-")
	dir := "/etc/kolla/" + service
	k.Write(dir+"/config.json", configJSON)
	args := []string{
		"create", "--name", name, "--network", "host", "--restart", "no",
		"--env", "KOLLA_CONFIG_STRATEGY=COPY_ALWAYS", "--env", "KOLLA_SERVICE_NAME=" + service, "--env", "TZ=UTC",
		"--ulimit", "nofile=1048576:1048576",
		"--volume", k.Path(dir) + "/:/var/lib/kolla/config_files/:ro", "--volume", "kolla_logs:/var/log/kolla/",
	}
	id := k.docker(append(append(args, more...), image)...)
	k.T.Cleanup(func() { _ = exec.Command("docker", "-H", k.p.engine.Address, "rm", "--force", id).Run() })
	k.docker("start", id)
	return id
}

// proposesAdoption: the containers of kolla-ansible become a node file, and its plan has the same
// settings. kollet runs nothing beside them.
func proposesAdoption(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	image := p.registry.Addr + "/test/kolla:v1"
	k := &kollaNode{newNodeOn(t, p.engine), p}
	k.Write("/etc/kollet/node.yaml", fmt.Sprintf("engine: %s\n", p.engine.Name))
	if p.engine.Name != "docker" {
		contains(t, k.Must(2, "adopt", "--plan").Stderr, "kolla-ansible's containers cannot be taken over on containerd")
		return
	}
	check(t, os.Remove(k.Path("/etc/kollet/node.yaml")))
	k.docker("pull", image)
	k.Write("/etc/kolla/nova-compute/nova.conf", "one\n")
	id := k.create("nova_compute", image, `{
  "command": "/bin/tiny serve 127.0.0.1:7001 /etc/nova/nova.conf",
  "config_files": [{"source": "/var/lib/kolla/config_files/nova.conf", "dest": "/etc/nova/nova.conf", "owner": "nova", "perm": "0600"}],
  "permissions": [{"path": "/var/lib/nova", "owner": "nova:nova", "recurse": true}]
}`, "--privileged", "--ipc", "host", "--volume", "/etc:/host:ro", "--volume", "nova_compute:/var/lib/nova/", "--memory", "512m",
		"--health-cmd", "healthcheck_answer 127.0.0.1:7001", "--health-interval", "30s", "--health-timeout", "30s", "--health-retries", "3")
	if got := answer(t, "127.0.0.1:7001"); got != "one" {
		t.Fatalf("kolla-ansible's container answers %q", got)
	}
	k.create("kolla_toolbox", image, `{"command": "sleep infinity"}`)

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
	if state := k.docker("inspect", "--format", "{{.Id}} {{.State.Status}}", "nova_compute"); state != id+" running" {
		t.Errorf("kolla-ansible's container: %s", state)
	}

	// Without kolla-ansible's container, the node file is one that works, with its volume.
	k.docker("stop", "nova_compute")
	k.docker("rename", "nova_compute", "nova_compute_old")
	k.Must(0, "bootstrap")
	k.Healthy(2) // the one that was refused had a number, too
	if got := answer(t, "127.0.0.1:7001"); got != "one" {
		t.Errorf("the service answers %q", got)
	}
	now := k.docker("inspect", "--format", "{{.HostConfig.Privileged}} {{.HostConfig.IpcMode}} {{.HostConfig.Memory}} {{.Config.Healthcheck.Test}} {{.HostConfig.NetworkMode}}", "nova-compute")
	if now != "true host 536870912 [CMD healthcheck_answer 127.0.0.1:7001] host" {
		t.Errorf("settings: %s", now)
	}
	contains(t, k.docker("inspect", "--format", "{{json .Mounts}}", "nova-compute"), `"Name":"nova_compute"`, `"Name":"kolla_logs"`, `"Destination":"/host"`)
	k.Must(0, "verify")
}
