package extra

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/kolla"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// scripted are the services that start by a script of the profile's.
var scripted = []string{"nova-libvirt", "openvswitch-db-server", "openvswitch-vswitchd", "ovn-controller"}

// TestKollaImages runs the services of the profile, except for those that need modules of the kernel,
// from images that start as Kolla's do: dumb-init runs kolla_start, and that the command of
// config.json. They have no scripts of kollet's.
func TestKollaImages(t *testing.T) {
	nodetest.ShareRun(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	extra := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "extra"))))
	machine.NewRabbit(t, rabbitPassword)
	central := machine.NewOVN(t)
	engine := nodetest.OnDocker(machine.Dockerd(t))
	t.Run("openvswitch and more", func(t *testing.T) {
		c := newCompute(t, engine, registry, extra)
		c.Network = "openvswitch"
		c.Write("/etc/kollet/config/neutron/openvswitch_agent.ini", "[ovs]\ndatapath_type = netdev\n")
		// Kolla's image of this one has another program: see docs/kolla.md.
		others := slices.DeleteFunc(slices.Clone(services), func(name string) bool { return name == "prometheus-libvirt-exporter" })
		for _, name := range others {
			c.Extra[name] = kolla.PushImage(t, extra, name)
		}
		c.startAsKollas(others...)
		metrics(t, c) // a guest runs
	})
	t.Run("ovn", func(t *testing.T) {
		c := newCompute(t, engine, registry, extra)
		c.Network, c.Extra = "ovn", nil
		for _, name := range services {
			c.Vars[strings.ReplaceAll(name, "-", "_")+"_enabled"] = "false"
		}
		c.Vars["ovn_sb_connection"], c.Vars["ovn_encap_ip"], c.Vars["nova_metadata_host"] = central.Southbound, "127.0.0.1", "127.0.0.1"
		c.Secrets["metadata_secret"] = "/etc/kollet/secrets/metadata"
		c.Write(c.Secrets["metadata_secret"], "m3tadataS3cret\n")
		c.Write("/etc/kollet/config/ovn/chassis.ini", "[external_ids]\novn-bridge-datapath-type = netdev\n")
		c.startAsKollas()
	})
	t.Run("linuxbridge", func(t *testing.T) {
		c := newCompute(t, engine, registry, extra)
		c.Network, c.Extra = "linuxbridge", nil
		for _, name := range services {
			c.Vars[strings.ReplaceAll(name, "-", "_")+"_enabled"] = "false"
		}
		c.startAsKollas()
	})
}

// startAsKollas brings the node up, with others that already have such images, and requires that
// each service is healthy, and was started in Kolla's way if the profile has no script for it.
func (c *compute) startAsKollas(others ...string) {
	c.T.Helper()
	all := append(c.ServiceNames(), others...)
	for _, name := range c.ServiceNames() {
		ref := kolla.PushImage(c.T, c.Registry, name)
		c.Images[name] = ref[strings.LastIndex(ref, ":")+1:]
	}
	c.Upgrade()
	c.Healthy(1)
	for _, name := range all {
		root := fmt.Sprintf("/proc/%d", c.Service(name).PID)
		first, err := os.ReadFile(filepath.Join(root, "cmdline"))
		check(c.T, err)
		got := strings.ReplaceAll(string(first), "\x00", " ")
		if byKolla := got == "dumb-init --single-child -- kolla_start "; byKolla == slices.Contains(scripted, name) {
			c.T.Errorf("%s: the first process is %q", name, got)
		}
		if command, err := os.ReadFile(filepath.Join(root, "root/run_command")); err != nil || len(command) == 0 {
			c.T.Errorf("%s: command %q, %v", name, command, err)
		}
	}
	c.Must(0, "verify")
}
