// Package kolla makes nodes for tests that kolla-ansible runs: with containers that have the
// settings of its roles, made through Docker's command line as its module makes them.
package kolla

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/test/nodetest"
)

// Ansible is kolla-ansible on a node with Docker.
type Ansible struct {
	t      testing.TB
	node   *nodetest.Node
	engine nodetest.Engine
}

// On returns kolla-ansible on a node.
func On(node *nodetest.Node, engine nodetest.Engine) *Ansible {
	return &Ansible{node.T, node, engine}
}

// Docker runs the docker command, and returns what it prints.
func (a *Ansible) Docker(args ...string) string {
	a.t.Helper()
	out, err := a.engine.Docker(args...).CombinedOutput()
	if err != nil {
		a.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// Create creates and starts a container as kolla_container does (kolla-ansible:
// module_utils/kolla_docker_worker.py), and returns its id: the host's network, binds, no restart
// policy of Docker's, and its directory in /etc/kolla, where this function writes config.json. more
// are the settings of its role.
func (a *Ansible) Create(name, image, configJSON string, more ...string) string {
	a.t.Helper()
	service := strings.ReplaceAll(name, "_", "-")
	dir := Dir(name)
	a.node.Write(dir+"/config.json", configJSON)
	args := []string{
		"create", "--name", name, "--network", "host", "--restart", "no",
		"--env", "KOLLA_CONFIG_STRATEGY=COPY_ALWAYS", "--env", "KOLLA_SERVICE_NAME=" + service, "--env", "TZ=UTC",
		"--ulimit", "nofile=1048576:1048576",
		"--volume", a.node.Path(dir) + "/:/var/lib/kolla/config_files/:ro", "--volume", "kolla_logs:/var/log/kolla/",
	}
	id := a.Docker(append(append(args, more...), image)...)
	a.t.Cleanup(func() { _ = a.engine.Docker("rm", "--force", id).Run() })
	a.Docker("start", id)
	return id
}

// Dir is the directory with the config files of a container.
func Dir(name string) string { return "/etc/kolla/" + strings.ReplaceAll(name, "_", "-") }

// Health is the health check of a role.
func Health(command string) []string {
	return []string{"--health-cmd", command, "--health-interval", "30s", "--health-timeout", "30s", "--health-retries", "3"}
}

// State returns what an operator sees of a container: its id, state and restart policy.
func (a *Ansible) State(name string) string {
	a.t.Helper()
	return a.Docker("inspect", "--format", "{{.Id}} {{.State.Status}} {{.HostConfig.RestartPolicy.Name}}", name)
}

// AwaitAnswer waits until a command succeeds in a container.
func (a *Ansible) AwaitAnswer(name string, argv ...string) {
	a.t.Helper()
	a.node.Await(name+" answers "+strings.Join(argv, " "), func() bool {
		return a.engine.Docker(append([]string{"exec", name}, argv...)...).Run() == nil
	})
}
