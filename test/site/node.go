package site

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kollet/kollet/test/machine"
)

// Node is a machine that kollet manages.
type Node struct {
	Site    *Site
	Number  int
	Name    string
	Address string

	boot *exec.Cmd
}

// NewNode creates a node and boots it; Await waits for it.
func (s *Site) NewNode(number int) *Node {
	s.T.Helper()
	n := &Node{Site: s, Number: number, Name: fmt.Sprintf("node%d", number), Address: fmt.Sprintf("10.88.0.%d", number)}
	s.check(os.MkdirAll(n.Path("disk"), 0o755))
	s.Nodes = append(s.Nodes, n)
	s.T.Cleanup(func() {
		if s.T.Failed() {
			n.printState()
		}
		n.Off()
	})
	n.On()
	return n
}

// Path is that of one of the node's files on the control machine. Below "disk" are the
// directories of the node that survive a reboot.
func (n *Node) Path(name string) string { return n.Site.Path(n.Name + "/" + name) }

// On boots the node and does not wait for it; Await does.
func (n *Node) On() {
	n.Site.T.Helper()
	log, err := os.OpenFile(n.Path("boot.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	n.Site.check(err)
	defer log.Close()
	n.boot = exec.Command("/bin/sh", n.Site.Path("node.sh"), n.Name, n.Site.Path(n.Name), n.Address+"/24", RegistryAddr, machine.CgroupParent(), n.Site.runtime)
	n.boot.Env = []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
	n.boot.Stdout, n.boot.Stderr = log, log
	n.boot.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
		Setsid:     true,
	}
	n.Site.check(n.boot.Start())
	for i, to := range networks {
		port := n.port(to)
		n.Site.Must("ip", "link", "add", port, "type", "veth", "peer", "name", fmt.Sprintf("eth%d", i), "netns", fmt.Sprint(n.boot.Process.Pid))
		n.Site.Must("ip", "link", "set", port, "master", to, "up")
	}
}

var networks = []string{bridge, provider}

// port is the name of the node's port of a bridge.
func (n *Node) port(bridge string) string { return fmt.Sprintf("%s-%d", bridge, n.Number) }

// Off kills all of the node's processes at once, as a power loss does.
func (n *Node) Off() {
	if n.boot == nil {
		return
	}
	_ = n.boot.Process.Kill() // this is pid 1, so the kernel kills the others
	_ = n.boot.Wait()
	n.boot = nil
	for _, to := range networks {
		// The kernel removes the link some time after the last process.
		_ = exec.Command("ip", "link", "delete", n.port(to)).Run()
	}
}

// Await waits until the node has booted and accepts SSH connections.
func (n *Node) Await() {
	n.Site.T.Helper()
	for until := time.Now().Add(10 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		out, err := n.SSH("true").CombinedOutput()
		if err == nil {
			return
		}
		if time.Now().After(until) {
			n.Site.T.Fatalf("%s did not boot: %v\n%s", n.Name, err, out)
		}
	}
}

// SSH returns a command that runs on the node.
func (n *Node) SSH(command string) *exec.Cmd {
	return exec.Command("ssh", append(n.Site.SSHArgs(), "root@"+n.Address, command)...)
}

// Run runs a command on the node and requires that it succeeds. It returns its output.
func (n *Node) Run(command string) string {
	n.Site.T.Helper()
	out, err := n.Try(command)
	if err != nil {
		n.Site.T.Fatal(err)
	}
	return out
}

// Try runs a command on the node. The error has the output.
func (n *Node) Try(command string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := n.SSH(command)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %s: %w\n%s%s", n.Name, command, err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// Ask runs kollet with JSON output and decodes it.
func (n *Node) Ask(into any, command string) {
	n.Site.T.Helper()
	out := n.Run("kollet -o json " + command)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		n.Site.T.Fatalf("%s: kollet %s: %v\n%s", n.Name, command, err, out)
	}
}

// printState prints the end of the node's logs, and its journals.
func (n *Node) printState() {
	for _, name := range []string{"boot.log", "sshd.log", "dockerd.log"} {
		data, _ := os.ReadFile(n.Path(name))
		if len(data) > 2000 {
			data = data[len(data)-2000:]
		}
		n.Site.T.Logf("--- %s: %s\n%s", n.Name, name, data)
	}
	journals, _ := filepath.Glob(n.Path("disk/var/lib/kollet/journal/*"))
	for _, path := range journals {
		data, _ := os.ReadFile(path)
		n.Site.T.Logf("--- %s: %s\n%s", n.Name, filepath.Base(path), data)
	}
}
