package nodetest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/test/machine"
)

// Versions of the node's images that make builds. They differ only in a label.
const (
	OldVersion = "26.2.2"
	NewVersion = "26.2.2-1"
)

// Compute is a node with the compute profile, libvirt's guests emulated. Its fields are
// what Configure writes into the node file.
type Compute struct {
	*Node
	On       Engine
	Registry *machine.Registry
	Network  string            // the profile's network
	Vars     map[string]string // in addition to virt_type
	Secrets  map[string]string // a file for each
	Settings string            // additional lines at the top level
	More     map[string]string // additional lines of services
	Extra    map[string]string // images of services that Vars switch on
	Images   map[string]string // tags of services that do not have OldVersion
}

// ShareRun makes /run a shared mount, as systemd does on a real node. A test machine has
// its own /run.
func ShareRun(t testing.TB) {
	t.Helper()
	if err := unix.Mount("", "/run", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
}

// Overlay returns a directory with the content of another, which is not changed by what is
// written.
func Overlay(t testing.TB, dir string) string {
	t.Helper()
	base := t.TempDir()
	merged := filepath.Join(base, "merged")
	for _, sub := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(base, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", merged, "overlay", 0, fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", dir, base, base)); err != nil {
		t.Fatalf("mount an overlay of %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(merged, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", merged, err)
		}
	})
	return merged
}

// ClearRun removes what the services leave in /run, which a real node loses when it is shut
// down.
func ClearRun(t testing.TB) {
	t.Helper()
	for _, dir := range []string{"/run/libvirt", "/run/openvswitch", "/run/ovn"} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// Interface is one that a compute node has for its agent.
const Interface = "node0"

// NewCompute returns a compute node without services.
func NewCompute(t testing.TB, network string, engine Engine, registry *machine.Registry) *Compute {
	t.Helper()
	// The network agent derives its ID from the address of an interface.
	if out, err := exec.Command("ip", "link", "add", Interface, "type", "veth", "peer", "name", "node1").CombinedOutput(); err != nil {
		t.Fatalf("make a network interface: %v: %s", err, out)
	}
	t.Cleanup(func() {
		ClearRun(t)
		if out, err := exec.Command("ip", "link", "delete", Interface).CombinedOutput(); err != nil {
			t.Errorf("remove the network interface: %v: %s", err, out)
		}
	})
	return &Compute{
		Node: New(t, engine), On: engine, Registry: registry, Network: network,
		Vars: map[string]string{}, Secrets: map[string]string{}, Images: map[string]string{},
	}
}

// In returns the compute node with its failures reported to the test of one part.
func (c *Compute) In(t testing.TB) *Compute {
	inner, n := *c, *c.Node
	n.T = t
	inner.Node = &n
	return &inner
}

// networkServices are the profile's services for each network.
var networkServices = map[string][]string{
	"linuxbridge": {"neutron-linuxbridge-agent"},
	"openvswitch": {"openvswitch-db-server", "openvswitch-vswitchd", "neutron-openvswitch-agent"},
	"ovn":         {"openvswitch-db-server", "openvswitch-vswitchd", "ovn-controller", "neutron-ovn-metadata-agent"},
}

// ServiceNames returns the names of the node's services.
func (c *Compute) ServiceNames() []string {
	return append([]string{"nova-libvirt", "nova-compute"}, networkServices[c.Network]...)
}

// Configure writes the node file.
func (c *Compute) Configure() {
	c.T.Helper()
	modules := filepath.Join(c.Root, "modules") // a machine without modules may have no /lib/modules
	if err := os.MkdirAll(modules, 0o755); err != nil {
		c.T.Fatal(err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "engine: %s\nimages: {registry: %s/kolla, tag: %q}\nnetwork: %s\nvars:\n  virt_type: qemu\n", c.On.Name, c.Registry.Addr, OldVersion, c.Network)
	for _, name := range slices.Sorted(maps.Keys(c.Vars)) {
		fmt.Fprintf(&text, "  %s: %s\n", name, c.Vars[name])
	}
	text.WriteString("secrets:\n")
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		fmt.Fprintf(&text, "  %s: {file: %s}\n", name, c.Secrets[name])
	}
	text.WriteString(c.Settings)
	text.WriteString("services:\n")
	for _, name := range c.ServiceNames() {
		fmt.Fprintf(&text, "  %s:\n    volumes: [{source: %s, target: /lib/modules, read_only: true}]\n", name, modules)
		if tag, ok := c.Images[name]; ok {
			fmt.Fprintf(&text, "    image: %s:%s\n", name, tag)
		}
		text.WriteString(c.More[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		fmt.Fprintf(&text, "  %s:\n    image: %s\n%s", name, c.Extra[name], c.More[name])
	}
	c.Write("/etc/kollet/node.yaml", text.String())
}

// Upgrade runs an upgrade and requires that it commits.
func (c *Compute) Upgrade() upgrade.Result {
	c.T.Helper()
	c.Configure()
	var r upgrade.Result
	c.Ask(&r, "upgrade")
	if r.Outcome != journal.Committed {
		c.T.Fatalf("upgrade: %+v", r)
	}
	c.T.Logf("gaps: %+v", r.Gaps)
	return r
}

// Instances returns the directory of Nova's servers on this machine, which is in the
// volume of libvirt and nova-compute.
func (c *Compute) Instances() string {
	return filepath.Join(c.On.Volume(c.Root, "nova_compute"), "instances")
}

// Guests returns the guests that kollet finds.
func (c *Compute) Guests() []agent.Guest {
	c.T.Helper()
	var guests []agent.Guest
	c.Ask(&guests, "guests")
	return guests
}
