package rolling

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/site"
)

func TestMain(m *testing.M) { machine.Main(m) }

// newSite returns a site with the built images in its registry.
func newSite(t testing.TB) *site.Site {
	t.Helper()
	return site.New(t, machine.RegistryDir(nodetest.Built(t, "registry")))
}

// compute is a compute node.
type compute struct {
	*site.Node
	version string   // of its images
	network string   // the profile's network
	omit    []string // services of the profile
	vars    []string
	secrets []string
	volumes []string // of nova-libvirt
	more    string   // keys of the node file
}

// newCompute boots a node with kollet and without services.
func newCompute(s *site.Site, number int) *compute {
	s.T.Helper()
	c := &compute{Node: s.NewNode(number), version: nodetest.OldVersion, network: "linuxbridge"}
	c.vars = []string{"virt_type: qemu", "my_ip: " + c.Address}
	s.Must("install", "-D", "../../bin/kollet", c.Path("disk/usr/local/bin/kollet"))
	check(s.T, os.MkdirAll(c.Path("modules"), 0o755))
	c.distinct()
	return c
}

// pull fetches the node's images, for a bootstrap that follows.
func (c *compute) pull() error {
	for _, image := range []string{"nova-compute", "nova-libvirt", "neutron-linuxbridge-agent"} {
		if _, err := c.Try("docker pull -q " + site.RegistryAddr + "/kolla/" + image + ":" + c.version); err != nil {
			return err
		}
	}
	return nil
}

// distinct gives libvirt a UUID of its own. It takes the machine's, which these nodes
// share, and refuses a migration to a host with the same one.
func (c *compute) distinct() {
	c.Site.T.Helper()
	text, err := os.ReadFile("../../configs/templates/libvirtd.conf.tmpl")
	check(c.Site.T, err)
	c.write("/etc/kollet/templates/libvirtd.conf", string(text)+fmt.Sprintf("host_uuid = \"4a7f5e4c-0b57-4b6e-8c5e-%012d\"\n", c.Number))
}

// write writes a file of the node, in a directory that survives a reboot.
func (c *compute) write(path, content string) {
	c.Site.T.Helper()
	c.Site.Write(c.Name+"/disk"+path, content)
}

// configure writes the node file.
func (c *compute) configure() {
	c.Site.T.Helper()
	var services strings.Builder
	for _, name := range []string{"nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"} {
		if slices.Contains(c.omit, name) {
			fmt.Fprintf(&services, "  %s: {disabled: true}\n", name)
			continue
		}
		// A machine without modules may have no /lib/modules.
		volumes := []string{c.Path("modules") + ":/lib/modules:ro"}
		if name == "nova-libvirt" {
			volumes = append(volumes, c.volumes...)
		}
		fmt.Fprintf(&services, "  %s: {volumes: [%s]}\n", name, strings.Join(volumes, ", "))
	}
	c.write("/etc/kollet/node.yaml", fmt.Sprintf(`images: {registry: %s/kolla, tag: %q}
network: %s
vars: {%s}
secrets: {%s}
%sservices:
%s`, site.RegistryAddr, c.version, c.network, strings.Join(c.vars, ", "), strings.Join(c.secrets, ", "), c.more, services.String()))
}

// libvirtAlone leaves the node without nova-compute and network agent.
func (c *compute) libvirtAlone() {
	c.omit, c.network = []string{"nova-compute", "neutron-linuxbridge-agent"}, "none"
	c.vars = append(c.vars, "rabbit_host: none", "auth_url: none")
}

// exec runs a command in a service's container.
func (c *compute) exec(service, command string) string {
	c.Site.T.Helper()
	return c.Run("docker exec " + service + " " + command)
}

func (c *compute) guests() []agent.Guest {
	c.Site.T.Helper()
	var all []agent.Guest
	c.Ask(&all, "guests")
	return all
}

// upgrade runs an upgrade and requires that it commits.
func (c *compute) upgrade() {
	c.Site.T.Helper()
	c.configure()
	c.Run("kollet upgrade 2>&1")
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
