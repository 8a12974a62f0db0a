package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

const (
	registryAddr = "10.88.0.254:5000"
	bridge       = "fleet"
)

// site is a network with an image registry, a control machine and nodes. The control
// machine is the test's own machine.
type site struct {
	t        testing.TB
	dir      string
	registry *machine.Registry
	nodes    []*testNode
}

// newSite returns a site without nodes. Its network is a bridge.
func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{t: t, dir: machine.Dir(t, "fleet")}
	s.must("ip", "link", "add", bridge, "type", "bridge")
	s.must("ip", "addr", "add", "10.88.0.254/24", "dev", bridge)
	s.must("ip", "link", "set", bridge, "up")
	s.registry = machine.NewRegistry(t, machine.RegistryAddr(registryAddr))
	s.keys("10.88.0.*")
	return s
}

// keys creates an SSH host key that all nodes share, and the control machine's key.
// addresses is the pattern of the nodes' addresses in known_hosts.
func (s *site) keys(addresses string) {
	s.t.Helper()
	for _, name := range []string{"host_key", "control_key"} {
		s.must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.path(name))
	}
	s.write("sshd_config", fmt.Sprintf(`Port 22
Subsystem sftp internal-sftp
HostKey %s
AuthorizedKeysFile %s
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
MaxStartups 200
`, s.path("host_key"), s.path("control_key.pub")))
	key, err := os.ReadFile(s.path("host_key.pub"))
	check(s.t, err)
	s.write("known_hosts", addresses+" "+string(key))
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

func (s *site) write(name, content string) {
	s.t.Helper()
	path := s.path(name)
	check(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(s.t, os.WriteFile(path, []byte(content), 0o644))
}

// must runs a program on the control machine and requires that it succeeds.
func (s *site) must(argv ...string) string {
	s.t.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

// testNode is a machine that kollet manages.
type testNode struct {
	site    *site
	number  int
	name    string
	address string
	boot    *exec.Cmd
}

// newNode creates a node and boots it.
func (s *site) newNode(number int) *testNode {
	s.t.Helper()
	n := &testNode{site: s, number: number, name: fmt.Sprintf("node%d", number), address: fmt.Sprintf("10.88.0.%d", number)}
	check(s.t, os.MkdirAll(n.path("disk"), 0o755))
	s.nodes = append(s.nodes, n)
	s.t.Cleanup(func() {
		if s.t.Failed() {
			n.printState()
		}
		n.off()
	})
	n.on()
	return n
}

func (n *testNode) path(name string) string { return n.site.path(n.name + "/" + name) }

// on boots the node and does not wait for it; await does.
func (n *testNode) on() {
	t := n.site.t
	t.Helper()
	log, err := os.OpenFile(n.path("boot.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	check(t, err)
	defer log.Close()
	script, err := filepath.Abs("testdata/node.sh")
	check(t, err)
	n.boot = exec.Command("/bin/sh", script, n.name, n.site.path(n.name), n.address+"/24", registryAddr, machine.CgroupParent())
	n.boot.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	n.boot.Stdout, n.boot.Stderr = log, log
	n.boot.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	check(t, n.boot.Start())
	port := fmt.Sprintf("fleet%d", n.number)
	n.site.must("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(n.boot.Process.Pid))
	n.site.must("ip", "link", "set", port, "master", bridge, "up")
}

// off kills all of the node's processes at once, as a power loss does.
func (n *testNode) off() {
	if n.boot == nil {
		return
	}
	_ = n.boot.Process.Kill() // this is pid 1, so the kernel kills the others
	_ = n.boot.Wait()
	n.boot = nil
	// The kernel removes the link some time after the last process.
	port := fmt.Sprintf("fleet%d", n.number)
	_ = exec.Command("ip", "link", "delete", port).Run()
}

// await waits until the node has booted and accepts SSH connections.
func (n *testNode) await() {
	n.site.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := n.ssh("true").CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			n.site.t.Fatalf("%s did not boot: %v\n%s", n.name, err, out)
		}
	}
}

// sshArgs returns the control machine's options of ssh.
func (s *site) sshArgs() []string {
	return []string{"-i", s.path("control_key"), "-o", "UserKnownHostsFile=" + s.path("known_hosts"), "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"}
}

func (n *testNode) ssh(command string) *exec.Cmd {
	return exec.Command("ssh", append(n.site.sshArgs(), "root@"+n.address, command)...)
}

// run runs a command on the node and requires that it succeeds.
func (n *testNode) run(command string) string {
	n.site.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := n.ssh(command)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		n.site.t.Fatalf("%s: %s: %v\n%s%s", n.name, command, err, stdout.String(), stderr.String())
	}
	return stdout.String()
}

// ask runs kollet with JSON output and decodes it.
func (n *testNode) ask(into any, command string) {
	n.site.t.Helper()
	out := n.run("kollet -o json " + command)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		n.site.t.Fatalf("%s: kollet %s: %v\n%s", n.name, command, err, out)
	}
}

func (n *testNode) status() agent.Status {
	n.site.t.Helper()
	var s agent.Status
	n.ask(&s, "status")
	return s
}

// runsVersion requires that the node is healthy, that image, config file and answer of each
// service are of a version, and that there is no drift.
func (n *testNode) runsVersion(version string) {
	n.site.t.Helper()
	s := n.status()
	if !s.Healthy || s.Interrupted || len(s.Services) != 2 {
		n.site.t.Fatalf("%s: %+v; want all services healthy on %s", n.name, s, version)
	}
	for i, service := range s.Services {
		if !strings.HasSuffix(service.Image, ":"+version) {
			n.site.t.Fatalf("%s: %s runs %s, want %s", n.name, service.Name, service.Image, version)
		}
		answer := strings.Fields(n.run(fmt.Sprintf("docker exec %s /bin/tiny ask 127.0.0.1:%d", service.Name, 7001+i)))
		if len(answer) != 2 || answer[1] != version {
			n.site.t.Fatalf("%s: %s answers %q, want %s", n.name, service.Name, answer, version)
		}
	}
	n.run("kollet verify")
}

// printState prints the end of the node's logs, and its journals.
func (n *testNode) printState() {
	t := n.site.t
	for _, name := range []string{"boot.log", "sshd.log", "dockerd.log"} {
		data, _ := os.ReadFile(n.path(name))
		if len(data) > 2000 {
			data = data[len(data)-2000:]
		}
		t.Logf("--- %s: %s\n%s", n.name, name, data)
	}
	journals, _ := filepath.Glob(n.path("disk/var/lib/kollet/journal/*"))
	for _, path := range journals {
		data, _ := os.ReadFile(path)
		t.Logf("--- %s: %s\n%s", n.name, filepath.Base(path), data)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
