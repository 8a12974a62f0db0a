package computenode

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/machine/certificates"
	"github.com/kollet/kollet/test/nodetest"
)

// TestOVNNode runs a node whose switch OVN programs, with a real southbound database. It
// uses the userspace datapath, because not every kernel has the openvswitch module, and
// nothing of Nova, which has no part in it. make test runs it on Docker only.
func TestOVNNode(t *testing.T) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	central := machine.NewOVN(t)
	t.Run("docker", func(t *testing.T) {
		ovnLifecycle(t, nodetest.OnDocker(machine.Dockerd(t)), registry, central)
	})
	if !nodetest.Long() {
		return
	}
	t.Run("containerd", func(t *testing.T) {
		ovnLifecycle(t, nodetest.OnContainerd(machine.NewContainerd(t, machine.BoundedRuntime())), registry, central)
	})
}

// ovnLifecycle runs parts that depend on the ones before them.
func ovnLifecycle(t *testing.T, engine nodetest.Engine, registry *machine.Registry, central *machine.OVN) {
	t.Cleanup(func() { // after the node's containers are gone, for the other engine
		central.South(t, "--if-exists", "chassis-del", "compute-1")
		central.North(t, "--if-exists", "ls-del", "net")
	})
	n := &ovnNode{newCompute(t, "ovn", engine, registry, nil), central}
	n.Vars["ovn_sb_connection"] = n.central.Southbound
	n.More = map[string]string{"nova-libvirt": "    disabled: true\n", "nova-compute": "    disabled: true\n"}
	n.Vars["ovn_encap_ip"] = "127.0.0.1"
	n.Vars["bridge_mappings"] = "physnet1:br-ex"
	n.Vars["nova_metadata_host"] = "127.0.0.1"
	n.Secrets["metadata_secret"] = "/etc/kollet/secrets/metadata"
	n.Write("/etc/kollet/secrets/metadata", "m3tadataS3cret\n")
	n.Write(chassisOverride, userspace)
	t.Cleanup(unplug)
	for _, part := range []struct {
		name string
		test func(*testing.T, *ovnNode)
	}{
		{"bootstrap registers the chassis", ovnBootstrap},
		{"ports reach each other, and get addresses by DHCP", plugged},
		{"ovs-vswitchd is replaced with its flows", switchAlone},
		{"a switch that loses its flows is rolled back", flowsLost},
		{"ovn-controller is replaced without a lost packet", controllerAlone},
		{"a wrong southbound database is refused", wrongSouthbound},
		{"versions that do not fit are refused", otherVersions},
		{"a rollback restores services and settings", networkRolledBack},
		{"all services of the network are upgraded", networkUpgraded},
		{"the southbound database is reached with TLS", southboundWithTLS},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.test(t, n.in(t)) }) {
			return // the next parts depend on it
		}
	}
}

const (
	chassisOverride = "/etc/kollet/config/ovn/chassis.ini"
	userspace       = "[external_ids]\novn-bridge-datapath-type = netdev\n"
)

const waitBeforeClear = "ovn-ofctrl-wait-before-clear"

var ovnServices = []string{"openvswitch-db-server", "openvswitch-vswitchd", "ovn-controller", "neutron-ovn-metadata-agent"}

func ovnBootstrap(t *testing.T, n *ovnNode) {
	n.Configure()
	n.Must(0, "bootstrap")
	if s := n.Healthy(1); len(s.Services) != len(ovnServices) {
		t.Fatalf("services: %+v", s.Services)
	}
	contains(t, n.central.South(t, "show"), "Chassis compute-1", "Encap geneve", `ip: "127.0.0.1"`)
	contains(t, n.vsctl("list-br"), "br-ex", "br-int")
	if got := n.setting("ovn-bridge-mappings"); got != "physnet1:br-ex" {
		t.Fatalf("mappings of bridges: %q", got)
	}
	n.Await("the agent tells Neutron of itself, in the southbound database", func() bool {
		return strings.Contains(n.central.South(t, "--bare", "--columns=external_ids", "find", "chassis_private", "name=compute-1"), "neutron:ovn-metadata-id=")
	})
	n.runsAs("neutron-ovn-metadata-agent", 42435)
}

func plugged(t *testing.T, n *ovnNode) {
	n.plug()
	n.lease()
	n.central.North(t, "--wait=hv", "sync")
	n.bound()
}

// controllerAlone requires that no packet is lost: not while the new ovn-controller
// computes its flows, and not when they replace those of the old one.
func controllerAlone(t *testing.T, n *ovnNode) {
	chassis, others := n.chassis(), n.Status().Services
	flows, start, packets := n.flows(), time.Now(), n.stream()
	n.Images["ovn-controller"] = newVersion
	n.Upgrade()
	if now := n.flows(); len(now) != len(flows) {
		t.Errorf("there were %d flows before, and %d are there after", len(flows), len(now))
	}
	n.Await("the flows are those of the new ovn-controller", func() bool { return slices.Max(n.flows()) < time.Since(start) })
	time.Sleep(time.Second)
	sent, lost := packets.end()
	t.Logf("%d packets of %d were lost", lost, sent)
	if lost > 0 {
		t.Errorf("%d packets of %d were lost", lost, sent)
	}
	if now := n.chassis(); now != chassis {
		t.Errorf("the chassis was %s, and is %s", chassis, now)
	}
	for _, was := range others {
		if was.Name != "ovn-controller" {
			nodetest.Same(t, was, n.Service(was.Name))
		}
	}
	if got := n.setting(waitBeforeClear); got != "8000" {
		t.Errorf("%s is %q", waitBeforeClear, got)
	}
	n.bound()
}

// switchAlone requires that the new switch begins with the flows of the old one, and not with
// none until ovn-controller has computed them. That one has started when there were none. What
// is left of saved flows whose removal was cut short is not in the way.
func switchAlone(t *testing.T, n *ovnNode) {
	n.Must(0, "exec", "openvswitch-vswitchd", "--", "mkdir", "-p", "/run/openvswitch/saved-flows/left")
	flows, packets := len(n.flows()), n.stream()
	n.Images["openvswitch-vswitchd"] = newVersion
	n.Upgrade()
	n.restoredFlows()
	if now := len(n.flows()); now != flows {
		t.Errorf("there were %d flows before, and %d are there after", flows, now)
	}
	n.bound()
	sent, lost := packets.end()
	t.Logf("%d packets of %d were lost, of which each lasts 10 ms", lost, sent)
	n.lease()
}

// flowsLost requires that an upgrade is rolled back although all probes pass, if the switch
// does not do what it did before.
func flowsLost(t *testing.T, n *ovnNode) {
	for _, service := range []string{"openvswitch-vswitchd", "ovn-controller"} {
		if problems := n.problems(service); problems != "" {
			t.Fatalf("%s has problems: %s", service, problems)
		}
	}
	before, number := n.Service("openvswitch-vswitchd"), n.Status().Generation
	n.More["openvswitch-vswitchd"] = `    entrypoint: [sh, -c, 'while :; do ovs-ofctl --timeout=5 del-flows br-int; done & exec vswitchd-start "$@"', sh]` + "\n"
	n.Configure()
	o := n.Must(1, "upgrade")
	contains(t, o.Stderr, "openvswitch-vswitchd: it has problems that it did not have before the upgrade: bridge br-int has no flows", fmt.Sprintf("back on generation %d", number))
	if now := n.Service("openvswitch-vswitchd"); now.Container != before.Container {
		t.Errorf("the switch runs in %s, and ran in %s", now.Container, before.Container)
	}
	delete(n.More, "openvswitch-vswitchd")
	n.Configure()
	n.bound()
}

// problems runs the command of a service that prints its problems, as the generation has it.
func (n *ovnNode) problems(service string) string {
	n.T.Helper()
	record, err := generation.Store{Dir: n.Path(node.StateDir)}.Load(n.Status().Generation)
	check(n.T, err)
	s, _ := record.Service(service)
	if len(s.Problems) == 0 {
		n.T.Fatalf("%s has no command that prints its problems", service)
	}
	return n.Must(0, append([]string{"exec", service, "--"}, s.Problems...)...).Stdout
}

// restoredFlows requires that the switch has restored the flows of the last one, so that
// ovn-controller takes its time to replace them.
func (n *ovnNode) restoredFlows() {
	n.T.Helper()
	contains(n.T, n.Must(0, "logs", "openvswitch-vswitchd").Stdout, "vswitchd-start: restored the flows of the last one")
	if got := n.setting(waitBeforeClear); got != "8000" {
		n.T.Errorf("%s is %q", waitBeforeClear, got)
	}
	if got := n.vsctl("get", "Open_vSwitch", ".", "other_config"); strings.Contains(got, "flow-restore-wait") {
		n.T.Errorf("the switch still waits: %s", got)
	}
}

func wrongSouthbound(t *testing.T, n *ovnNode) {
	before := n.Status()
	n.Vars["ovn_sb_connection"] = "tcp:127.0.0.1:6643"
	n.Configure()
	o := n.Must(1, "upgrade")
	contains(t, o.Stderr, "nothing was touched: ", "check requires: ovn-controller, neutron-ovn-metadata-agent: ", "probe ovsdb tcp:127.0.0.1:6643: ", "connection refused")
	for _, was := range before.Services {
		nodetest.Same(t, was, n.Service(was.Name))
	}
	n.Vars["ovn_sb_connection"] = n.central.Southbound
	n.Configure()
	n.bound()
}

// otherVersions tries programs of other versions than those of ovn-northd and of the database.
func otherVersions(t *testing.T, n *ovnNode) {
	before, images := n.Status(), maps.Clone(n.Images)
	controller := func(version string) {
		n.variant("ovn-controller", version, map[string]string{
			"/usr/local/bin/ovn-controller": "#!/bin/sh\n[ \"$1\" != --version ] || { echo ovn-controller " + version + "; exit; }\nexec /usr/bin/ovn-controller \"$@\"\n",
		})
		n.Images["ovn-controller"] = version
		n.Configure()
	}
	refused := func(reasons ...string) {
		t.Helper()
		contains(t, n.Must(1, "upgrade").Stderr, append(reasons, "nothing was touched: ")...)
		for _, was := range before.Services {
			nodetest.Same(t, was, n.Service(was.Name))
		}
	}
	northd := n.northdVersion()
	controller("22.12.1")
	refused("check requires: ovn-controller: ", "ovn-northd is of version "+northd+", and ovn-controller would be 22.12.1: upgrade ovn-controller before ovn-northd")
	controller("24.09.0")
	refused("and ovn-controller would be 24.09.0: upgrade to 24.03 first")
	maps.Copy(n.Images, images)
	n.variant("openvswitch-vswitchd", "newer", map[string]string{"/usr/share/openvswitch/vswitch.ovsschema": `{"name": "Open_vSwitch", "version": "99.1.0", "tables": {}}`})
	n.Images["openvswitch-vswitchd"] = "newer"
	n.Configure()
	refused("check requires: openvswitch-vswitchd: ", "this ovs-vswitchd needs 99.1.0: upgrade openvswitch-db-server too")
	n.Images["openvswitch-db-server"] = newVersion
	controller("24.03.2")
	n.Upgrade()
	n.bound()
}

// northdVersion returns the version of ovn-northd.
func (n *ovnNode) northdVersion() string {
	n.T.Helper()
	version, _, _ := strings.Cut(strings.Trim(n.central.South(n.T, "get", "SB_Global", ".", "options:northd_internal_version"), `"`), "-")
	return version
}

// networkRolledBack upgrades all services of the network, with other settings of the
// switch, of which the last one fails.
func networkRolledBack(t *testing.T, n *ovnNode) {
	chassis, generation := n.chassis(), n.Status().Generation
	before, packets := maps.Clone(n.Images), n.stream()
	n.upgraded()
	n.Vars["bridge_mappings"] = "physnet1:br-ex,physnet2:br-dc"
	n.Write(chassisOverride, userspace+"ovn-cms-options = enable-chassis-as-gw\n")
	n.More["neutron-ovn-metadata-agent"] = "    command: [neutron-ovn-metadata-agent, --config-file, /no/such/file]\n"
	n.Configure()
	contains(t, n.Must(1, "upgrade").Stderr, "neutron-ovn-metadata-agent", fmt.Sprintf("back on generation %d", generation))
	n.Healthy(generation)
	sent, lost := packets.end()
	t.Logf("%d packets of %d were lost, of which each lasts 10 ms", lost, sent)
	if mappings, options := n.setting("ovn-bridge-mappings"), n.setting("ovn-cms-options"); mappings != "physnet1:br-ex" || options != "" {
		t.Errorf("mappings of bridges %q, options %q", mappings, options)
	}
	if now := n.chassis(); now != chassis {
		t.Errorf("the chassis was %s, and is %s", chassis, now)
	}
	n.bound()
	n.restoredFlows()
	n.Vars["bridge_mappings"] = "physnet1:br-ex"
	delete(n.More, "neutron-ovn-metadata-agent")
	n.Write(chassisOverride, userspace)
	clear(n.Images)
	maps.Copy(n.Images, before)
}

func networkUpgraded(t *testing.T, n *ovnNode) {
	chassis, packets := n.chassis(), n.stream()
	n.upgraded()
	n.Upgrade()
	n.bound()
	sent, lost := packets.end()
	t.Logf("%d packets of %d were lost, of which each lasts 10 ms", lost, sent)
	if now := n.chassis(); now != chassis {
		t.Errorf("the chassis was %s, and is %s", chassis, now)
	}
	for _, name := range ovnServices {
		if image := n.Service(name).Image; !strings.HasSuffix(image, ":"+n.Images[name]) {
			t.Errorf("%s has the image %s", name, image)
		}
	}
	n.restoredFlows()
	contains(t, n.vsctl("list-br"), "br-ex", "br-int")
	n.lease()
	n.Must(0, "verify")
}

// upgraded gives all services of the network another version.
func (n *ovnNode) upgraded() {
	for _, name := range ovnServices {
		if n.Images[name] = newVersion; strings.HasSuffix(n.Service(name).Image, ":"+newVersion) {
			n.Images[name] = oldVersion
		}
	}
}

// southboundWithTLS has ovn-controller and the agent use TLS. Without a certificate that the
// database trusts, an upgrade is rolled back.
func southboundWithTLS(t *testing.T, n *ovnNode) {
	chassis := n.chassis()
	n.Vars["ovn_sb_connection"] = n.central.Secure
	n.certify(n.central.Authority)
	n.Upgrade()
	if got := n.setting("ovn-remote"); got != n.central.Secure {
		t.Errorf("ovn-controller connects to %q", got)
	}
	if now := n.chassis(); now != chassis {
		t.Errorf("the chassis was %s, and is %s", chassis, now)
	}
	n.bound()
	n.lease()
	if n.On.Name != "docker" { // the rest does not depend on the engine
		return
	}
	generation := n.Status().Generation
	other, err := certificates.New("other")
	check(t, err)
	n.certify(other)
	contains(t, n.Must(1, "upgrade").Stderr, "ovn-controller", fmt.Sprintf("back on generation %d", generation))
	n.Healthy(generation)
	n.bound()
}

// certify gives the node a certificate of an authority.
func (n *ovnNode) certify(by *certificates.Authority) {
	n.T.Helper()
	cert, key, err := by.Issue("compute-1", net.IPv4(127, 0, 0, 1))
	check(n.T, err)
	for name, content := range map[string][]byte{"ovn_ca": n.central.Authority.Certificate, "ovn_certificate": cert, "ovn_private_key": key} {
		n.Secrets[name] = "/etc/kollet/secrets/" + name
		n.Write(n.Secrets[name], string(content))
	}
}
