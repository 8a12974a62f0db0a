package stack

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

const (
	// address is where control plane, registry and control machine are reached, by the
	// test's machine and by the machines of the stack.
	address      = "10.80.0.1"
	registryAddr = address + ":4000"

	outerHost = "compute-1" // the name that package nodetest gives its node
)

// site is a cloud with one compute node, on which Nova boots the machines of a stack. The
// test's machine is also the control machine of Ansible.
type site struct {
	t     testing.TB
	dir   string
	cloud *cloud.Cloud
	api   *cloud.Client
	outer *nodetest.Compute
	inner string // id of the server on a node of the stack
}

// in returns the site with its failures reported to the test of one part.
func (s *site) in(t *testing.T) *site {
	s.t, s.api = t, s.cloud.Client(t)
	return s
}

// newSite starts the cloud and its compute node, and puts the node image into Glance.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, dir: machine.Dir(t, "stack")}
	nodetest.ShareRun(t)
	engine := machine.Dockerd(t, machine.DockerArgs("--insecure-registry="+registryAddr))
	s.outer = nodetest.NewCompute(t, "linuxbridge", nodetest.OnDocker(engine), nil)
	// The agent bridges one end with the servers' ports; the other one is the host's
	// own interface in their network.
	s.must("ip", "address", "add", address+"/24", "dev", "node1")
	for _, link := range []string{"node0", "node1"} {
		s.must("ip", "link", "set", link, "up")
	}
	s.outer.Registry = machine.NewRegistry(t, machine.RegistryDir(nodetest.Built(s.t, "registry")), machine.RegistryAddr(registryAddr))
	s.cloud = cloud.New(t, cloud.Address(address))
	s.api = s.cloud.Client(t)
	t.Cleanup(func() {
		if t.Failed() {
			s.printConsoles(t)
		}
	})
	s.bootstrap()
	s.populate()
	s.control()
	return s
}

// printConsoles prints the end of each machine's console.
func (s *site) printConsoles(t *testing.T) {
	paths, _ := filepath.Glob(filepath.Join(s.outer.Instances(), "*", "console.log"))
	for _, path := range paths {
		text, err := os.ReadFile(path)
		t.Logf("--- %s: %v\n%s", path, err, text[max(0, len(text)-6000):])
	}
}

// bootstrap makes the test's machine a compute node of the cloud.
func (s *site) bootstrap() {
	s.t.Helper()
	n := s.outer
	s.cloud.Connect(n)
	n.Vars["physical_interface_mappings"] = "management:" + nodetest.Interface
	n.Configure()
	var r upgrade.Result
	n.Ask(&r, "bootstrap")
	if r.Outcome != journal.Committed {
		s.t.Fatalf("bootstrap: %+v", r)
	}
	s.api.AwaitCompute(outerHost, time.Time{})
	s.api.AwaitAgent(outerHost, time.Time{})
}

// populate creates what the stack's parameters name. docs/node-image.md has the command
// for the image.
func (s *site) populate() {
	s.t.Helper()
	s.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.path("key"))
	s.openstack("image", "create", "node", "--public", "--disk-format", "qcow2", "--container-format", "bare", "--file", nodetest.Built(s.t, "node/disk.qcow2"))
	s.openstack("flavor", "create", "--vcpus", "2", "--ram", "3072", "--disk", "12", "compute")
	s.openstack("keypair", "create", "--public-key", s.path("key.pub"), "operator")
	s.openstack("network", "create", "management", "--provider-network-type", "flat", "--provider-physical-network", "management", "--disable-port-security")
	s.openstack("subnet", "create", "management", "--network", "management", "--subnet-range", address+"/24", "--no-dhcp",
		"--gateway", address, "--allocation-pool", "start=10.80.0.20,end=10.80.0.99")
}

// insecure lets the nodes' engine use the test's registry, which has no TLS.
const insecure = `#!/bin/sh
echo '{"live-restore": true, "insecure-registries": ["` + registryAddr + `"]}' >/etc/docker/daemon.json
systemctl restart docker
`

// nodeFile returns the node file of the stack's nodes. The probes' times are long, because
// every instruction of the machine is emulated.
func (s *site) nodeFile(tag string) string {
	return fmt.Sprintf(`images: {registry: %s/kolla, tag: %q}
network: linuxbridge
vars:
  virt_type: qemu
  resume_guests_state_on_host_boot: true
  rabbit_host: %s
  auth_url: %s
secrets:
  rabbit_password: {file: /etc/kollet/secrets/rabbit_password}
  nova_password: {file: /etc/kollet/secrets/nova_password}
  placement_password: {file: /etc/kollet/secrets/placement_password}
  neutron_password: {file: /etc/kollet/secrets/neutron_password}
services:
  nova-libvirt:
    healthcheck: [{exec: [virsh, -c, "qemu:///system", version, --daemon], interval: 15s, start_period: 900s, stable: 5s, timeout: 120s}]
  nova-compute:
    healthcheck: [{exec: [healthcheck_port, nova-compute, "5672"], interval: 15s, start_period: 900s, stable: 5s, timeout: 120s}]
  neutron-linuxbridge-agent:
    healthcheck: [{exec: [healthcheck_port, neutron-linuxbridge-agent, "5672"], interval: 15s, start_period: 900s, stable: 5s, timeout: 120s}]
`, registryAddr, tag, address, s.cloud.AuthURL)
}

// ownAddress is the node's address, from the metadata of its config drive.
const ownAddress = "{{ (index .instance.ds.network_json.networks 0).ip_address }}"

// overrides are what differs between the nodes: their own addresses.
var overrides = map[string]string{
	"nova.conf":                     "[DEFAULT]\nmy_ip = " + ownAddress + "\n",
	"neutron/linuxbridge_agent.ini": "[vxlan]\nenable_vxlan = true\nlocal_ip = " + ownAddress + "\n",
}

// userData creates the nodes' user-data, and returns its path.
func (s *site) userData(name, nodeFile string) string {
	s.t.Helper()
	root := s.path(name)
	s.write(name+"/etc/kollet/node.yaml", nodeFile)
	for path, content := range overrides {
		s.write(name+"/etc/kollet/config/"+path, content)
	}
	for _, user := range []string{"rabbit", "nova", "placement", "neutron"} {
		s.write(name+"/etc/kollet/secrets/"+user+"_password", s.read(s.cloud.Secret(user)))
	}
	s.t.Log(s.must(nodetest.Program(s.t, "kollet"), "userdata", "--root", root, "--to", root+".user-data"))
	return root + ".user-data"
}

// create begins a stack. playbooks/heat/README.md has the command.
func (s *site) create(stack, userData string, count int, name string) {
	s.t.Helper()
	s.write("insecure.sh", insecure)
	s.openstack("stack", "create", "-t", "../../playbooks/heat/compute-nodes.yaml",
		"--parameter-file", "user_data="+userData, "--parameter-file", "extra_script="+s.path("insecure.sh"),
		"--parameter", "count="+strconv.Itoa(count), "--parameter", "name="+name, "--parameter", "image=node",
		"--parameter", "flavor=compute", "--parameter", "network=management", "--parameter", "key_name=operator",
		"--parameter", "config_drive=true", "--parameter", "timeout=2700", stack)
}

// awaitStack waits until a stack is complete or has failed, and reports the progress of
// its machines.
func (s *site) awaitStack(stack string, limit time.Duration) (status, reason string) {
	s.t.Helper()
	said := map[string]string{}
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(10 * time.Second) {
		status, reason, _ = strings.Cut(s.openstack("stack", "show", stack, "-f", "value", "-c", "stack_status", "-c", "stack_status_reason"), "\n")
		if status != "CREATE_IN_PROGRESS" {
			return status, strings.TrimSpace(reason)
		}
		for path, line := range s.consoles() {
			if line != said[path] {
				said[path] = line
				s.t.Logf("%s %s: %s", time.Now().Format("15:04:05"), path, line)
			}
		}
	}
	s.t.Fatalf("after %v the stack %s is %s: %s", limit, stack, status, reason)
	return "", ""
}

// output returns an output of the stack of nodes, which has a value for each of them.
func (s *site) output(name string) []string {
	s.t.Helper()
	var output struct {
		Value []string `json:"output_value"`
	}
	text := s.openstack("stack", "output", "show", "compute", name, "-f", "json")
	if err := json.Unmarshal([]byte(text), &output); err != nil || len(output.Value) != len(nodes) {
		s.t.Fatalf("the stack's output %s: %v\n%s", name, err, text)
	}
	return output.Value
}

// progress is a line of cloud-init, of kollet bootstrap or of the signal.
var progress = regexp.MustCompile(`cloud-init\[\d+\]: (Cloud-init v|\d{4}-\d\d-\d\dT|signal: )(.*)`)

// consoles returns the last line of progress on the console of each machine of a stack.
func (s *site) consoles() map[string]string {
	lines := map[string]string{}
	paths, _ := filepath.Glob(filepath.Join(s.outer.Instances(), "*", "console.log"))
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if found := progress.FindAllStringSubmatch(string(text), -1); len(found) > 0 {
			lines[filepath.Base(filepath.Dir(path))[:8]] = strings.TrimSpace(found[len(found)-1][1] + found[len(found)-1][2])
		}
	}
	return lines
}

// awaitServer waits until a server is ACTIVE.
func (s *site) awaitServer(id string, limit time.Duration) {
	s.t.Helper()
	for deadline := time.Now().Add(limit); ; time.Sleep(5 * time.Second) {
		server := s.api.Server(id)
		switch {
		case server.Status == "ACTIVE":
			return
		case server.Status == "ERROR":
			s.t.Fatalf("the server is in state ERROR: %s", server.Fault.Message)
		case time.Now().After(deadline):
			s.t.Fatalf("after %v the server is %s, %s", limit, server.Status, server.TaskState)
		}
	}
}

var tick = regexp.MustCompile(`(?m)^tick (\d+)\r?$`)

// ticks returns the last tick on a server's console.
func (s *site) ticks(id string) (int, error) {
	s.t.Helper()
	text, err := s.api.TryConsole(id)
	found := tick.FindAllStringSubmatch(text, -1)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return strconv.Atoi(found[len(found)-1][1])
}

// awaitTicks waits until a server has written that many lines from now on. A node that has
// just started, and starts its servers, may not answer within Nova's timeout.
func (s *site) awaitTicks(id string, count int) {
	s.t.Helper()
	last, known := 0, false
	for deadline := time.Now().Add(10 * time.Minute); count > 0; time.Sleep(time.Second) {
		now, err := s.ticks(id)
		switch {
		case err != nil:
			s.t.Logf("no console log: %v", err)
		case !known:
			last, known = now, true
		case now != last: // the count begins again when the server is started again
			last = now
			count--
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the server stays at tick %d; its console:\n%s", last, s.api.Console(id))
		}
	}
}

// openstack runs the command of OpenStack's clients, as the administrator.
func (s *site) openstack(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("/usr/bin/python3", append([]string{"/usr/bin/openstack"}, args...)...) // it is installed for Debian's Python
	cmd.Env = append(os.Environ(), "OS_CLOUD=kollet", "OS_CLIENT_CONFIG_FILE="+filepath.Join(s.cloud.Credentials, "clouds.yaml"))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("openstack %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

func (s *site) must(argv ...string) string {
	s.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name, content string) {
	s.t.Helper()
	s.check(os.MkdirAll(filepath.Dir(s.path(name)), 0o755))
	s.check(os.WriteFile(s.path(name), []byte(content), 0o600))
}

func (s *site) read(path string) string {
	s.t.Helper()
	text, err := os.ReadFile(path)
	s.check(err)
	return string(text)
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
