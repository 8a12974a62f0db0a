package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
)

// Versions of the node's images that make builds: they differ by a label.
const (
	oldVersion = "26.2.2"
	newVersion = "26.2.2-1"
)

// compute is a node with libvirt, nova-compute and the network agent, and the
// message bus that the last two need.
type compute struct {
	*testNode
	registry *machine.Registry
	rabbit   *machine.Rabbit
	images   map[string]string // service: tag, where it is not the old version
	extra    map[string]string // service: more lines of the node file
}

// onBothComputes measures the same on a compute node of each engine. Registry
// and broker are the same for both.
func onBothComputes(b *testing.B, measure func(*testing.B, *compute)) {
	images, err := filepath.Abs(filepath.Join(buildDir(), "registry"))
	if err == nil {
		_, err = os.Stat(images)
	}
	if err != nil {
		b.Fatalf("the images of a compute node are not built: %v: run make images", err)
	}
	// The network agent needs the network namespaces that others mount
	// below /run; systemd makes all mounts of a node shared.
	check(b, unix.Mount("", "/run", "", unix.MS_SHARED|unix.MS_REC, ""))
	registry := machine.NewRegistry(b, machine.RegistryDir(images))
	rabbit := machine.NewRabbit(b, "bench")
	b.Run("docker", func(b *testing.B) {
		measure(b, newCompute(b, onDocker(machine.Dockerd(b)), registry, rabbit))
	})
	b.Run("containerd", func(b *testing.B) {
		measure(b, newCompute(b, onContainerd(machine.NewContainerd(b, machine.BoundedRuntime())), registry, rabbit))
	})
}

// newCompute brings one up.
func newCompute(b *testing.B, on engine, registry *machine.Registry, rabbit *machine.Rabbit) *compute {
	b.Helper()
	// The network agent takes its identity from an interface's address.
	link := func(args ...string) {
		if out, err := exec.Command("ip", append([]string{"link"}, args...)...).CombinedOutput(); err != nil {
			b.Fatalf("ip link %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	link("add", "node0", "type", "veth", "peer", "name", "node1")
	b.Cleanup(func() {
		check(b, os.RemoveAll("/run/libvirt")) // on a real node it goes with the machine
		link("delete", "node0")
	})
	c := &compute{testNode: newNode(b, on), registry: registry, rabbit: rabbit, images: map[string]string{}, extra: map[string]string{}}
	c.write("/etc/kollet/secrets/rabbit", rabbit.Password+"\n")
	c.configure()
	c.change(string(journal.Committed), "bootstrap")
	return c
}

// configure writes the node file.
func (c *compute) configure() {
	c.b.Helper()
	modules := filepath.Join(c.root, "modules") // a machine without modules may have no /lib/modules
	check(c.b, os.MkdirAll(modules, 0o755))
	var services strings.Builder
	for _, name := range []string{"nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"} {
		fmt.Fprintf(&services, "  %s:\n    volumes: [{source: %s, target: /lib/modules, read_only: true}]\n", name, modules)
		if tag, ok := c.images[name]; ok {
			fmt.Fprintf(&services, "    image: %s:%s\n", name, tag)
		}
		services.WriteString(c.extra[name])
	}
	c.write(node.DefaultNodeFile, fmt.Sprintf(`engine: %s
keep_generations: 1
images: {registry: %s/kolla, tag: %q}
network: linuxbridge
vars: {virt_type: qemu, rabbit_host: 127.0.0.1, auth_url: none}
secrets: {rabbit_password: {file: /etc/kollet/secrets/rabbit}}
services:
%s`, c.on.name, c.registry.Addr, oldVersion, services.String()))
}
