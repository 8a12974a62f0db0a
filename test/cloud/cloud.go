package cloud

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const (
	image     = "kolla/controller:26.2.2"
	container = "controller"

	// What controller-populate makes.
	Image    = "guest"
	Flavor   = "tiny"
	Tenant   = "tenant"   // a VXLAN network
	Provider = "provider" // a flat network on physnet1
	Overlay  = "overlay"  // a Geneve network, on which OVN serves DHCP
)

// Cloud is an OpenStack control plane that only the test uses.
type Cloud struct {
	Address     string // on which everything listens; the broker has port 5672
	AuthURL     string // of Keystone
	Credentials string // directory with openrc, clouds.yaml and secrets
	Engine      *machine.Docker

	t testing.TB
}

// Option changes a control plane.
type Option func(*Cloud)

// Address sets the address on which everything listens, and which the catalogue has. It
// must exist in the machine. The default is 127.0.0.1.
func Address(address string) Option { return func(c *Cloud) { c.Address = address } }

// New starts a control plane with an image, a flavor and two networks, and waits until every
// API answers. A machine can run one at a time.
func New(t testing.TB, options ...Option) *Cloud {
	t.Helper()
	c := &Cloud{Address: "127.0.0.1", Credentials: machine.Dir(t, "cloud"), t: t}
	for _, option := range options {
		option(c)
	}
	c.AuthURL = "http://" + c.Address + ":5000/v3"
	guest := nodetest.Built(t, "guest")
	began := time.Now()
	c.Engine = machine.Dockerd(t, machine.DockerImages(nodetest.Built(t, "controller")))
	loaded := time.Since(began)
	t.Cleanup(c.tellOnFailure)
	c.docker("run", "--detach", "--name", container, "--network", "host", "--stop-timeout", "60",
		"--cap-drop", "ALL", "--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER",
		"--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL", "--security-opt", "no-new-privileges",
		"--env", "CONTROLLER_ADDRESS="+c.Address,
		"--volume", "controller:/var/lib/controller", "--volume", c.Credentials+":/credentials", "--volume", guest+":/guest:ro",
		image)
	c.await()
	answered := time.Since(began)
	c.docker("exec", container, "controller-populate")
	t.Logf("control plane: image there after %.1f s, APIs after %.1f s, guest and networks after %.1f s",
		loaded.Seconds(), answered.Seconds(), time.Since(began).Seconds())
	return c
}

// Secret returns the path of the file with the password of rabbit, nova, placement or
// neutron, for a node file.
func (c *Cloud) Secret(user string) string { return c.secret(user + "_password") }

func (c *Cloud) secret(name string) string { return filepath.Join(c.Credentials, "secrets", name) }

// Connect gives a compute node what its node file needs of the cloud.
func (c *Cloud) Connect(node *nodetest.Compute) {
	c.t.Helper()
	maps.Copy(node.Vars, map[string]string{"rabbit_host": c.Address, "auth_url": c.AuthURL, "my_ip": c.Address})
	secrets := []string{"rabbit_password", "nova_password", "placement_password", "neutron_password"}
	if node.Network == "ovn" {
		maps.Copy(node.Vars, map[string]string{"ovn_sb_connection": "tcp:" + c.Address + ":6642", "nova_metadata_host": c.Address})
		secrets = append(secrets, "metadata_secret")
	}
	for _, name := range secrets {
		secret, err := os.ReadFile(c.secret(name))
		if err != nil {
			c.t.Fatal(err)
		}
		node.Secrets[name] = "/etc/kollet/secrets/" + name
		node.Write("/etc/kollet/secrets/"+name, string(secret))
	}
}

// Southbound runs ovn-sbctl and returns what it prints.
func (c *Cloud) Southbound(args ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.docker(append([]string{"exec", container, "ovn-sbctl", "--timeout=120"}, args...)...))
}

// Restart stops the control plane as an operator would, starts it again with the same data,
// and waits until every API answers.
func (c *Cloud) Restart() {
	c.t.Helper()
	c.docker("restart", "--time", "60", container)
	c.await()
}

// Service stops, starts or restarts one service of the control plane, such as rabbitmq or
// nova-api, with supervisorctl(1).
func (c *Cloud) Service(action, name string) {
	c.t.Helper()
	c.docker("exec", container, "supervisorctl", "--configuration", "/etc/controller/supervisord.conf", action, name)
}

// Await waits until every API answers.
func (c *Cloud) await() {
	c.t.Helper()
	c.docker("exec", container, "controller-ready", "--wait", fmt.Sprint(int(Patience.Seconds())))
}

// Log returns the end of a service's log.
func (c *Cloud) Log(name string, lines string) string {
	c.t.Helper()
	return c.docker("exec", container, "tail", "--lines", lines, "/var/log/controller/"+name+".log")
}

// docker runs the docker command with the engine of the control plane.
func (c *Cloud) docker(args ...string) string {
	c.t.Helper()
	out, err := c.command(args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (c *Cloud) command(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+c.Engine.Socket)
	return cmd
}

// tellOnFailure prints the ends of all logs if the test failed.
func (c *Cloud) tellOnFailure() {
	if !c.t.Failed() {
		return
	}
	out, err := c.command("exec", container, "sh", "-c",
		`for log in /var/log/controller/*.log; do echo "--- $log"; grep -E " (ERROR|CRITICAL|TRACE) |rror" "$log" | tail -n 15; tail -n 5 "$log"; done`).CombinedOutput()
	c.t.Logf("control plane: %v\n%s", err, out)
	if err != nil { // it does not run
		state, _ := c.command("inspect", "--format", "{{json .State}}", container).CombinedOutput()
		last, _ := c.command("logs", "--tail", "30", container).CombinedOutput()
		c.t.Logf("control plane: %s\n%s", state, last)
	}
}
