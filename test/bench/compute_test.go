package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/machine"
)

// version of the node's images that is measured.
const version = "26.2.2"

// computeNode brings up libvirt, nova-compute and the network agent, with the
// message bus that the last two need.
func computeNode(b *testing.B, images string) *node {
	b.Helper()
	const password = "bench"
	// The network agent wants to see the network namespaces that others mount
	// below /run; systemd makes all mounts of a node shared.
	check(b, unix.Mount("", "/run", "", unix.MS_SHARED|unix.MS_REC, ""))
	// And it takes its identity from an interface's address.
	if out, err := exec.Command("ip", "link", "add", "node0", "type", "veth", "peer", "name", "node1").CombinedOutput(); err != nil {
		b.Fatalf("make a network interface: %v: %s", err, out)
	}
	engine := machine.Dockerd(b)
	images, err := filepath.Abs(images)
	check(b, err)
	registry := machine.NewRegistry(b, machine.RegistryDir(images))
	machine.NewRabbit(b, password)
	n := newNode(b, engine)
	n.write("/etc/kollet/secrets/rabbit", password+"\n")
	modules := filepath.Join(n.root, "modules") // a machine without modules may have no /lib/modules
	check(b, os.MkdirAll(modules, 0o755))
	var services strings.Builder
	for _, name := range []string{"nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"} {
		fmt.Fprintf(&services, "  %s: {mounts: [{source: %s, target: /lib/modules, read_only: true}]}\n", name, modules)
	}
	n.write(agent.DefaultNodeFile, fmt.Sprintf(`images: {registry: %s/kolla, tag: %q}
network: linuxbridge
vars: {virt_type: qemu, rabbit_host: 127.0.0.1}
secrets: {rabbit_password: {file: /etc/kollet/secrets/rabbit}}
services:
%s`, registry.Addr, version, services.String()))
	n.change(string(journal.Committed), "bootstrap")
	return n
}
