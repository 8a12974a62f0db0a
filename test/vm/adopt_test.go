package vm

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/test/tiny/image"
)

// kollaUnit is the unit that kolla-ansible writes for a container (kolla-ansible:
// module_utils/kolla_systemd_worker.py).
const kollaUnit = `[Unit]
Description=docker %[1]s.service
After=docker.service
Wants=docker.service
PartOf=kolla.target
StartLimitInterval=120
StartLimitBurst=10

[Service]
ExecStart=/usr/bin/docker start -a %[1]s
ExecStop=/usr/bin/docker stop %[1]s -t 60
Restart=always
RestartSec=11
SuccessExitStatus=143

[Install]
WantedBy=multi-user.target
`

// restartTime is more than the RestartSec of the units.
const restartTime = 15 * time.Second

// kollaContainers are what kolla-ansible runs on the node, and the ports where their services answer.
// iscsid has the name of its service.
var kollaContainers = map[string]int{"nova_compute": 7001, "iscsid": 7002}

// TestAdopt takes a node over whose containers systemd starts, as it is with kolla-ansible, and gives
// it back. A reboot after each starts the right ones.
func TestAdopt(t *testing.T) {
	n := newNode(t, plan{
		name: "adopt", seed: "nocloud", direct: true, memory: 2048, bare: true,
		tools: func(dir string) {
			archive(t, filepath.Join(dir, imagesFile), map[string]v1.Image{"kolla:v1": image.Kolla(t, "v1").Make(t)})
		},
	})
	n.powerOn()
	n.must("cloud-init", "status", "--wait")
	n.up()
	n.must("docker", "load", "--input", toolsDir+"/"+imagesFile)
	for name, port := range kollaContainers {
		n.runByUnit(name, port)
	}
	n.ofKolla()
	n.failsToAdopt()
	n.refusesToAdopt()

	t.Log(n.must("kollet", "adopt"))
	n.ofKollet()
	time.Sleep(restartTime)
	n.ofKollet()
	for name := range kollaContainers { // also if someone asks for it
		n.must("systemctl", "start", unitOf(name))
	}
	n.ofKollet()
	n.reboot()
	n.up()
	n.ofKollet()

	t.Log(n.must("kollet", "rollback", "0"))
	n.ofKolla()
	n.reboot()
	n.up()
	n.ofKolla()
	n.must("docker", "kill", "nova_compute") // systemd starts it again, as ever
	time.Sleep(restartTime)
	n.ofKolla()
}

func unitOf(name string) string { return "kolla-" + name + "-container.service" }

// runByUnit creates a container and its unit, as kolla-ansible does, and starts the unit.
func (n *node) runByUnit(name string, port int) {
	n.t.Helper()
	dir := "/etc/kolla/" + strings.ReplaceAll(name, "_", "-")
	n.must("mkdir", "-p", dir)
	n.write(dir+"/config.json", fmt.Sprintf(`{
  "command": "/bin/tiny serve 127.0.0.1:%d /etc/tiny.conf",
  "config_files": [{"source": "/var/lib/kolla/config_files/tiny.conf", "dest": "/etc/tiny.conf", "owner": "nova", "perm": "0600"}]
}`, port))
	n.write(dir+"/tiny.conf", name+"\n")
	n.must("docker", "create", "--name", name, "--network", "host", "--restart", "no",
		"--env", "KOLLA_CONFIG_STRATEGY=COPY_ALWAYS", "--env", "KOLLA_SERVICE_NAME="+strings.ReplaceAll(name, "_", "-"),
		"--volume", dir+"/:/var/lib/kolla/config_files/:ro", "--volume", "kolla_logs:/var/log/kolla/", "--volume", "nova_compute:/var/lib/nova/",
		"--volume", "/run/openvswitch:/run/openvswitch:shared", // which a reboot removes
		"--health-cmd", fmt.Sprint("healthcheck_answer 127.0.0.1:", port), "--health-interval", "30s", "--health-timeout", "30s", "--health-retries", "3",
		repository+"/kolla:v1")
	n.write("/etc/systemd/system/"+unitOf(name), fmt.Sprintf(kollaUnit, name))
	n.must("systemctl", "daemon-reload")
	n.must("systemctl", "enable", "--now", unitOf(name))
}

// failsToAdopt has a new container not become healthy: those of kolla-ansible run again at once, and
// their units do not stop what they did not start.
func (n *node) failsToAdopt() {
	n.t.Helper()
	n.must("kollet", "adopt", "--plan", "--write")
	n.must("sed", "-i", `/exec: .*:7001/s/start_period: 3m/start_period: 1s/; /exec: .*:7001/s/:7001/:7003/`, nodeFile)
	a := n.do("kollet", "adopt")
	if a.Status != 1 {
		n.t.Fatalf("exit status %d\n%s%s", a.Status, a.Stdout, a.Stderr)
	}
	contains(n.t, a.Stderr, "the node is back on generation 0")
	started := func() string {
		n.t.Helper()
		n.ofKolla()
		return n.must("docker", "inspect", "--format", "{{.State.StartedAt}}", "nova_compute", "iscsid")
	}
	before := started()
	time.Sleep(restartTime)
	if now := started(); now != before {
		n.t.Fatalf("kolla-ansible's containers were started again at %q, before at %q", now, before)
	}
	n.must("rm", nodeFile)
}

// refusesToAdopt: a container that systemd has just started again may not stay up.
func (n *node) refusesToAdopt() {
	n.t.Helper()
	n.must("docker", "kill", "nova_compute")
	time.Sleep(restartTime)
	n.ofKolla()
	a := n.do("kollet", "adopt", "--plan")
	if a.Status != 1 {
		n.t.Fatalf("exit status %d\n%s%s", a.Status, a.Stdout, a.Stderr)
	}
	contains(n.t, a.Stdout, "nova_compute: it exits repeatedly: restarting (1 restart, ")
	n.must("systemctl", "restart", unitOf("nova_compute"))
	n.ofKolla()
}

// ofKolla requires that the containers of kolla-ansible run, by their units, and nothing else does.
func (n *node) ofKolla() {
	n.t.Helper()
	var names []string
	for name := range kollaContainers {
		names = append(names, name)
		n.answers(name, name)
		n.unitIs(name, "ActiveState=active\n", "DropInPaths=\n", "Restart=always\n")
	}
	n.onlyRun(names...)
}

// ofKollet requires that the services of kollet run, and that the units of kolla-ansible are held.
func (n *node) ofKollet() {
	n.t.Helper()
	var names []string
	for name := range kollaContainers {
		service := strings.ReplaceAll(name, "_", "-")
		names = append(names, service)
		n.answers(service, name)
		n.unitIs(name, "ActiveState=inactive\n", "kollet.conf\n", "Restart=no\n")
	}
	n.onlyRun(names...)
	n.healthy()
}

// unitIs waits until systemd shows this of the unit of a container.
func (n *node) unitIs(name string, want ...string) {
	n.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(time.Second) {
		shown := n.must("systemctl", "show", "--property", "ActiveState,DropInPaths,Restart", unitOf(name))
		missing := func(text string) bool { return !strings.Contains(shown, text) }
		if !slices.ContainsFunc(want, missing) {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s: %s, want %q", unitOf(name), shown, want)
		}
	}
}

// answers waits until the service of a container answers with a word.
func (n *node) answers(container, word string) {
	n.t.Helper()
	ask := []string{"docker", "exec", container, "tiny", "ask", fmt.Sprint("127.0.0.1:", kollaContainers[word])}
	for deadline := time.Now().Add(workTime); ; time.Sleep(time.Second) {
		a := n.do(ask...)
		if a.Status == 0 && slices.Contains(strings.Fields(a.Stdout), word) {
			return
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("%s answers %q, exit status %d: %s", container, a.Stdout, a.Status, a.Stderr)
		}
	}
}

// onlyRun requires that these containers run, and no others.
func (n *node) onlyRun(names ...string) {
	n.t.Helper()
	running := strings.Fields(n.must("docker", "ps", "--format", "{{.Names}}"))
	if len(running) != len(names) {
		n.t.Fatalf("the containers %q run, want %q", running, names)
	}
}
