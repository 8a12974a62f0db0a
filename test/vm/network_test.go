package vm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
)

// BenchmarkNetwork measures what packets between two ports of a switch notice while the
// services of OVN are replaced, by kollet and as operators do it, on a node whose datapath is the
// kernel's. It writes a table to network.txt in the build directory, and fails if kollet loses
// packets of established flows.
func BenchmarkNetwork(b *testing.B) {
	n := newNetwork(b)
	n.powerOn()
	n.firstBoot()
	n.plug()
	path := filepath.Join(built(b, "."), "bench/network.txt")
	check(b, os.MkdirAll(filepath.Dir(path), 0o755))
	var table strings.Builder
	fmt.Fprintf(&table, "%-58s %8s %6s %8s %9s %9s %6s %9s %6s\n", "", "packets", "lost", "worst ms", "TCP ms", "new lost", "new ms", "ARP ms", "down")
	for _, p := range n.phases() {
		b.Run(p.name, func(b *testing.B) {
			r := n.during(p.do)
			line := fmt.Sprintf("%-58s %8d %6d %8.0f %9.0f %9d %6.0f %9.0f %6d\n", p.name, r.Steady.Sent, r.Steady.Lost, r.Steady.Worst, r.Stream.Worst, r.New.Lost, r.New.Worst, r.ARP.Worst, r.down)
			table.WriteString(line)
			check(b, os.WriteFile(path, []byte(table.String()), 0o644))
			b.Logf("%s%.0f s", line, r.took.Seconds())
			if p.hitless && (r.Steady.Lost > 0 || r.down > 0) {
				b.Errorf("%s: %d packets of %d were lost, and ports were down %d times", p.name, r.Steady.Lost, r.Steady.Sent, r.down)
			}
		})
	}
	b.Logf("\n%s", table.String())
}

// networkNode is a node whose switch OVN programs, with three ports: of one that sends, of one
// that answers, and of a router.
type networkNode struct {
	*node
	central *machine.OVN
	tags    map[string]string // of services' images
	more    map[string]string // more lines of services
}

// networkServices are those that guests' packets depend on.
var networkServices = []string{"openvswitch-vswitchd", "ovn-controller", "openvswitch-db-server"}

const (
	sender, answerer                = "port1", "port2"
	senderAddress, answererAddress  = "10.9.0.11", "10.9.0.12"
	gatewayAddress, gatewayHardware = "10.9.0.1", "02:00:00:00:00:fe"
	trafficReport                   = "/run/traffic.json"
)

func newNetwork(b *testing.B) *networkNode {
	b.Helper()
	n := &networkNode{central: machine.NewOVN(b), tags: map[string]string{}, more: map[string]string{}}
	var images []string
	for _, name := range networkServices {
		n.tags[name] = oldVersion
		images = append(images, name+":"+oldVersion, name+":"+newVersion)
	}
	n.node = newNode(b, plan{
		name: "network", seed: "nocloud", direct: true, memory: 3072, outer: true, nodeFile: n.file(),
		files: map[string]string{"etc/kollet/secrets/rabbit": "none\n"},
		tools: func(dir string) {
			archive(b, filepath.Join(dir, imagesFile), nodeImages(b, images...))
			copyFile(b, filepath.Join(dir, "traffic"), program(b, "traffic"))
		},
	})
	return n
}

// file returns the node file.
func (n *networkNode) file() string {
	var text strings.Builder
	fmt.Fprintf(&text, `images: {registry: %s, tag: %q}
network: ovn
vars:
  rabbit_host: 127.0.0.1
  auth_url: none
  virt_type: qemu
  ovn_sb_connection: tcp:10.0.2.2:6642
  ovn_encap_ip: 10.0.2.15
  bridge_mappings: physnet1:br-ex
secrets:
  rabbit_password: {file: /etc/kollet/secrets/rabbit}
services:
  nova-libvirt: {disabled: true}
  nova-compute: {disabled: true}
  neutron-ovn-metadata-agent: {disabled: true}
`, repository, oldVersion)
	for _, name := range networkServices {
		// An emulated machine is too slow for what is required within three seconds.
		fmt.Fprintf(&text, "  %s:\n    image: %s:%s\n    requires: []\n%s", name, name, n.tags[name], n.more[name])
	}
	return text.String()
}

// plug makes a logical switch with a router and security groups as Neutron makes them, and
// network namespaces for its two ports. The second one takes frames for any station.
func (n *networkNode) plug() {
	n.t.Helper()
	n.central.North(n.t, "ls-add", "net",
		"--", "lsp-add", "net", sender, "--", "lsp-set-addresses", sender, "02:00:00:00:00:01 "+senderAddress, "--", "lsp-set-port-security", sender, "02:00:00:00:00:01 "+senderAddress,
		"--", "lsp-add", "net", answerer, "--", "lsp-set-addresses", answerer, "02:00:00:00:00:02 "+answererAddress, "unknown",
		"--", "lr-add", "router", "--", "lrp-add", "router", "gateway", gatewayHardware, gatewayAddress+"/24",
		"--", "lsp-add", "net", "up", "--", "lsp-set-type", "up", "router", "--", "lsp-set-addresses", "up", "router", "--", "lsp-set-options", "up", "router-port=gateway",
		"--", "pg-add", "group", sender, answerer,
		"--", "acl-add", "group", "from-lport", "1001", "inport == @group && ip", "drop",
		"--", "acl-add", "group", "to-lport", "1001", "outport == @group && ip", "drop",
		"--", "acl-add", "group", "from-lport", "1002", "inport == @group && ip4", "allow-related",
		"--", "acl-add", "group", "to-lport", "1002", "outport == @group && ip4 && ip4.src == 10.9.0.0/24", "allow-related")
	for i, port := range []string{sender, answerer} {
		tap, mac := "tap-"+port, fmt.Sprintf("02:00:00:00:00:0%d", i+1)
		n.must("ip", "netns", "add", port)
		n.must("ip", "link", "add", tap, "type", "veth", "peer", "name", "eth0", "address", mac, "netns", port)
		n.must("ip", "link", "set", tap, "up")
		n.must("ip", "-n", port, "link", "set", "eth0", "up")
		n.must("ip", "-n", port, "address", "add", []string{senderAddress, answererAddress}[i]+"/24", "dev", "eth0")
		n.must("kollet", "exec", "openvswitch-vswitchd", "--", "ovs-vsctl", "add-port", "br-int", tap, "--", "set", "Interface", tap, "external_ids:iface-id="+port)
	}
	n.central.North(n.t, "--wait=hv", "sync")
	n.must("sysctl", "-qw", "net.core.netdev_max_backlog=100000") // what an emulated machine does late is not lost
	n.must("systemd-run", "--unit=answer", toolsDir+"/traffic", "answer", answerer)
	contains(n.t, n.must("lsmod"), "openvswitch")
	if datapath := n.must("kollet", "exec", "openvswitch-vswitchd", "--", "ovs-appctl", "dpif/show"); !strings.HasPrefix(datapath, "system@") {
		n.t.Fatalf("the switch does not use the kernel's datapath:\n%s", datapath)
	}
}

// phase is one way to replace services.
type phase struct {
	name    string
	do      func()
	hitless bool // to established flows
}

func (n *networkNode) phases() []phase {
	phases := []phase{{"nothing", func() {}, true}}
	for _, name := range networkServices {
		phases = append(phases, phase{"kollet upgrade: " + name, func() { n.upgrade(name) }, true})
	}
	return append(phases, []phase{
		{"kollet upgrade: all three", func() { n.upgrade(networkServices...) }, true},
		{"kollet rollback: all three", n.rollBack, true},
		{"kollet upgrade that fails, of all three", n.failing, true},
		{"docker restart openvswitch-vswitchd", func() { n.must("docker", "restart", "openvswitch-vswitchd") }, false},
		{"docker restart ovn-controller", func() { n.must("docker", "restart", "ovn-controller") }, false},
		{"docker restart of the three, in order", func() {
			n.must("docker", "restart", "openvswitch-db-server", "openvswitch-vswitchd", "ovn-controller")
		}, false},
		{"stop, remove, create, start: vswitchd", func() { n.byHand("openvswitch-vswitchd", vswitchd) }, false},
		{"stop, remove, create, start: ovn-controller", func() { n.byHand("ovn-controller", controller) }, false},
		{"stop, remove, create, start: the three", func() {
			n.byHand("openvswitch-db-server", "")
			n.byHand("openvswitch-vswitchd", vswitchd)
			n.byHand("ovn-controller", controller)
		}, false},
	}...)
}

// other changes the versions of services.
func (n *networkNode) other(names ...string) {
	for _, name := range names {
		n.tags[name] = map[string]string{oldVersion: newVersion, newVersion: oldVersion}[n.tags[name]]
	}
}

// upgrade gives services the other version.
func (n *networkNode) upgrade(names ...string) {
	n.t.Helper()
	n.other(names...)
	n.write(nodeFile, n.file())
	if a := n.do("kollet", "upgrade"); a.Status != 0 {
		n.t.Errorf("kollet upgrade: exit status %d\n%s%s", a.Status, a.Stdout, a.Stderr)
	}
}

// rollBack returns to the services before the upgrade.
func (n *networkNode) rollBack() {
	n.t.Helper()
	n.other(networkServices...)
	n.must("kollet", "rollback")
}

// failing upgrades all services, of which the last one fails.
func (n *networkNode) failing() {
	n.t.Helper()
	const last = "ovn-controller"
	before := maps.Clone(n.tags)
	n.more[last] = "    command: [--no-such-option]\n"
	n.other(networkServices...)
	n.write(nodeFile, n.file())
	if a := n.do("kollet", "upgrade"); a.Status != 1 || !strings.Contains(a.Stderr, "back on generation") {
		n.t.Errorf("kollet upgrade: exit status %d\n%s%s", a.Status, a.Stdout, a.Stderr)
	}
	n.tags = before
	delete(n.more, last)
	n.write(nodeFile, n.file())
}

// Commands of containers that are made manually, as Kolla's images have them.
const (
	vswitchd   = "ovs-vswitchd unix:/run/openvswitch/db.sock --pidfile --overwrite-pidfile --mlockall"
	controller = "ovn-controller unix:/run/openvswitch/db.sock --pidfile --overwrite-pidfile"
)

// byHand replaces a container as deployment tools do. Without a command, it has that of its
// image.
func (n *networkNode) byHand(name, command string) {
	n.t.Helper()
	image := repository + "/" + name + ":" + oldVersion
	create := []string{"docker", "create", "--name", name, "--privileged", "--network=host", "--pid=host", "--restart=unless-stopped",
		"--volume=/run:/run:shared", "--volume=/lib/modules:/lib/modules:ro", "--volume=openvswitch_db:/var/lib/openvswitch"}
	if words := strings.Fields(command); len(words) > 0 {
		create = append(append(create, "--entrypoint="+words[0], image), words[1:]...)
	} else {
		create = append(create, image)
	}
	for _, argv := range [][]string{{"docker", "stop", name}, {"docker", "rm", name}, create, {"docker", "start", name}} {
		n.must(argv...)
	}
}

// line is what traffic says of a series.
type line struct {
	Sent  int     `json:"sent"`
	Lost  int     `json:"lost"`
	Worst float64 `json:"worst_ms"`
}

// result is what happened while something was done.
type result struct {
	Steady line `json:"steady"`
	Stream line `json:"stream"`
	New    line `json:"new"`
	ARP    line `json:"arp"`
	down   int  // how often the ports lost their link or their binding
	took   time.Duration
}

// shortest returns how long is measured at least: until KOLLET_PACKETS packets of an established
// flow were sent, or 100,000. traffic sends one every four milliseconds.
func shortest(t testing.TB) time.Duration {
	t.Helper()
	count, err := strconv.Atoi(cmp.Or(os.Getenv("KOLLET_PACKETS"), "100000"))
	check(t, err)
	return time.Duration(count) * 4 * time.Millisecond
}

// during measures while something is done, and after it.
func (n *networkNode) during(do func()) (r result) {
	n.t.Helper()
	down := n.down()
	n.must("systemd-run", "--unit=measure", "--collect", "--property=StandardOutput=truncate:"+trafficReport,
		toolsDir+"/traffic", "measure", sender, answererAddress, gatewayAddress)
	began := time.Now()
	time.Sleep(5 * time.Second) // until flows are established
	start := time.Now()
	do()
	r.took = time.Since(start)
	// ovn-controller replaces flows eight seconds after it has started.
	time.Sleep(max(12*time.Second, shortest(n.t)-time.Since(began)))
	n.must("systemctl", "stop", "measure")
	out := n.must("cat", trafficReport)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		n.t.Fatalf("what traffic measured: %v\n%s\n%s", err, out, n.do("journalctl", "--no-pager", "-n", "20", "-u", "measure").Stdout)
	}
	r.down = n.down() - down
	return r
}

// down returns how often the ports have lost their link, and fails unless both are bound.
func (n *networkNode) down() (count int) {
	n.t.Helper()
	chassis := n.central.South(n.t, "--bare", "--columns=_uuid", "find", "chassis", "name="+n.name)
	for _, port := range []string{sender, answerer} {
		text := strings.TrimSpace(n.must("cat", "/sys/class/net/tap-"+port+"/carrier_down_count"))
		lost, err := strconv.Atoi(text)
		check(n.t, err)
		count += lost
		bound := strings.Fields(n.central.South(n.t, "--bare", "--columns=chassis,up", "find", "port_binding", "logical_port="+port))
		if !slices.Equal(bound, []string{chassis, "true"}) {
			n.t.Errorf("%s: %q, want it to be bound to %s", port, bound, chassis)
		}
	}
	return count
}
