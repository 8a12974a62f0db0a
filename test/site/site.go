// Package site gives tests several nodes: each has its own processes, network, engine and
// disk, and they share a network, an image registry and a control machine, which is the
// test's own. It needs package machine, which isolates the whole.
package site

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

const (
	// Address is that of the control machine on the network of all nodes.
	Address = "10.88.0.254"
	// RegistryAddr is the image registry's address on that network.
	RegistryAddr = Address + ":5001"

	bridge   = "site"     // management network, eth0 of each node
	provider = "provider" // eth1 of each node, without addresses
)

//go:embed node.sh
var nodeScript string

// Site is a network with an image registry, a control machine and nodes.
type Site struct {
	T        testing.TB // of the part of a test that runs
	Dir      string
	Registry *machine.Registry
	Nodes    []*Node

	runtime string // OCI runtime of the nodes' engines
}

// New returns a site without nodes. Its network is a bridge.
func New(t testing.TB, options ...machine.RegistryOption) *Site {
	t.Helper()
	s := &Site{T: t, Dir: machine.Dir(t, "site")}
	for i, name := range []string{bridge, provider} {
		// An address of its own: else a bridge has that of one of its ports, and with that
		// node's end another, which the other nodes do not know for up to a minute.
		s.Must("ip", "link", "add", name, "address", fmt.Sprintf("02:00:0a:58:00:%02x", 0xfe-i), "type", "bridge")
		t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", name).Run() })
		s.Must("ip", "link", "set", name, "up")
	}
	s.Must("ip", "addr", "add", Address+"/24", "dev", bridge)
	s.Registry = machine.NewRegistry(t, append(options, machine.RegistryAddr(RegistryAddr))...)
	s.runtime = machine.Runtime(t)
	s.Write("node.sh", nodeScript)
	s.Keys("10.88.0.*")
	return s
}

// Keys creates an SSH host key that all nodes share, and the control machine's key.
// addresses is the pattern of the nodes' addresses in known_hosts.
func (s *Site) Keys(addresses string) {
	s.T.Helper()
	for _, name := range []string{"host_key", "control_key"} {
		s.Must("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", s.Path(name))
	}
	// A node's root has the home directory of the machine's. bash reads ~/.bashrc for commands over
	// SSH unless another shell runs it (SHLVL), and what developers have there can take a second.
	s.Write("sshd_config", fmt.Sprintf(`Port 22
SetEnv SHLVL=1
Subsystem sftp internal-sftp
HostKey %s
AuthorizedKeysFile %s
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
PidFile none
MaxStartups 200
`, s.Path("host_key"), s.Path("control_key.pub")))
	key, err := os.ReadFile(s.Path("host_key.pub"))
	s.check(err)
	s.Write("known_hosts", addresses+" "+string(key))
}

// SSHArgs returns the control machine's options of ssh.
func (s *Site) SSHArgs() []string {
	return []string{"-i", s.Path("control_key"), "-o", "UserKnownHostsFile=" + s.Path("known_hosts"), "-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=5", "-o", "BatchMode=yes"}
}

// Path is that of a file of the site.
func (s *Site) Path(name string) string { return filepath.Join(s.Dir, name) }

// Write writes a file of the site.
func (s *Site) Write(name, content string) {
	s.T.Helper()
	path := s.Path(name)
	s.check(os.MkdirAll(filepath.Dir(path), 0o755))
	s.check(os.WriteFile(path, []byte(content), 0o644))
}

// Must runs a program on the control machine and requires that it succeeds.
func (s *Site) Must(argv ...string) string {
	s.T.Helper()
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return string(out)
}

func (s *Site) check(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}
