package doctor

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/go-units"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

func checkCgroups(h host.Host) Check {
	unified, err := h.CgroupV2()
	switch {
	case err != nil:
		return Check{"cgroups", Bad, err.Error(), "mount the cgroup hierarchies"}
	case unified:
		return Check{Name: "cgroups", Level: Fine, Text: "version 2"}
	}
	return Check{Name: "cgroups", Level: Fine, Text: "version 1"}
}

// checkCapabilities: an engine cannot give a privileged container capabilities
// that are not in its own bounding set (capabilities(7)).
func checkCapabilities(h host.Host) Check {
	missing, err := h.MissingCapabilities()
	if err != nil {
		return Check{"capabilities", Warning, err.Error(), "allow kollet to call prctl(2)"}
	}
	if len(missing) > 0 {
		return Check{"capabilities", Warning, "this host withholds " + strings.Join(missing, ", "), "privileged containers fail unless the engine's runtime leaves the missing ones out; see docs/operations.md"}
	}
	return Check{Name: "capabilities", Level: Fine, Text: "all are available to privileged containers"}
}

// checkShared: a mount can be shared with a container only if it is shared on the
// host. systemd shares all mounts, other init systems may not
// (Documentation/filesystems/sharedsubtree.rst in the kernel).
func checkShared(h host.Host, services []generation.Service) []Check {
	var checks []Check
	for _, s := range services {
		for _, m := range s.Spec.Mounts {
			if strings.TrimPrefix(m.Propagation, "r") != "shared" {
				continue
			}
			source := m.Source
			if real, err := filepath.EvalSymlinks(source); err == nil {
				source = real // /var/run is a link to /run
			}
			at, err := h.MountOf(source)
			if err != nil {
				return nil // the engine will report what it cannot mount
			}
			if !at.Shared {
				checks = append(checks, Check{"mounts", Bad, fmt.Sprintf("%s mounts %s shared, but the mount at %s is private", s.Name, m.Source, at.Point), "mount --make-rshared " + at.Point})
			}
		}
	}
	return checks
}

// leastFree is the disk space that an upgrade needs at least: room for records
// and for unpacking, far less than one image, whose size is unknown before the
// pull.
const leastFree = 512 << 20

// CheckDisk checks that the file system of a path has room for an upgrade.
func CheckDisk(h host.Host, path string) Check {
	name := "disk " + path
	free, err := h.DiskFree(path)
	if err != nil {
		return Check{name, Bad, err.Error(), "make it readable"}
	}
	if free < leastFree {
		return Check{name, Bad, fmt.Sprintf("only %s free", units.BytesSize(float64(free))), fmt.Sprintf("free %s; `kollet gc` removes what is no longer needed; if that is not enough, remove files and images that are not kollet's, or enlarge the file system", units.BytesSize(leastFree))}
	}
	return Check{Name: name, Level: Fine, Text: units.BytesSize(float64(free)) + " free"}
}

func checkMachined(h host.Host) Check {
	if !h.RunsSystemd() {
		return Check{Name: "machined", Level: Fine, Text: "not needed without systemd: kollet moves guests out of their container's cgroup itself"}
	}
	if !h.HasFile("/lib/systemd/systemd-machined") {
		return Check{"machined", Warning, "systemd-machined is not installed", "apt-get install systemd-container: libvirt then puts guests into machine.slice from the start"}
	}
	return Check{Name: "machined", Level: Fine, Text: "installed"}
}

// modulesDir is where the compute profile's services find the kernel's modules.
const modulesDir = "/lib/modules"

// modules are the kernel modules that a compute node's services need.
var modules = []string{"br_netfilter", "tun", "vhost_net"}

// modulesOf are those that some services need in addition.
var modulesOf = map[string]string{"openvswitch-vswitchd": "openvswitch", "ovn-controller": "geneve"}

func checkModules(h host.Host, services []generation.Service) Check {
	needed := slices.Clone(modules)
	for _, s := range services {
		if m := modulesOf[s.Name]; m != "" {
			needed = append(needed, m)
		}
	}
	slices.Sort(needed)
	mounted := func(s generation.Service) bool {
		return slices.ContainsFunc(s.Spec.Mounts, func(m containers.Mount) bool { return m.Source == modulesDir })
	}
	if (services == nil || slices.ContainsFunc(services, mounted)) && !h.HasFile(modulesDir) {
		return Check{"modules", Warning, modulesDir + " does not exist", "create it, or give the services that mount it another directory"}
	}
	data, err := os.ReadFile(filepath.Join(h.Proc, "modules"))
	if err != nil {
		return Check{Name: "modules", Level: Fine, Text: "the kernel has no loadable modules"}
	}
	loaded := map[string]bool{}
	in := bufio.NewScanner(strings.NewReader(string(data)))
	for in.Scan() {
		name, _, _ := strings.Cut(in.Text(), " ")
		loaded[name] = true
	}
	var missing []string
	for _, m := range needed {
		if _, err := os.Stat(filepath.Join(h.Sys, "module", m)); err != nil && !loaded[m] { // built-in modules are in /sys only
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 {
		return Check{"modules", Warning, "not loaded: " + strings.Join(missing, ", "), "modprobe -a " + strings.Join(missing, " ") + ", and list them in /etc/modules-load.d/kollet.conf"}
	}
	return Check{Name: "modules", Level: Fine, Text: strings.Join(needed, ", ")}
}

// checkAgents: a node with an agent that Neutron no longer has cannot follow its releases.
func checkAgents(services []generation.Service) []Check {
	const removed = "neutron-linuxbridge-agent"
	if !slices.ContainsFunc(services, func(s generation.Service) bool { return s.Name == removed }) {
		return nil
	}
	return []Check{{"network", Warning, "Neutron has removed " + removed + " in its release 2025.1", "plan the move to network: openvswitch or ovn before that release; see docs/network.md"}}
}

func checkKVM(h host.Host) Check {
	if !h.HasFile("/dev/kvm") {
		return Check{"kvm", Warning, "/dev/kvm does not exist", "enable virtualization in the firmware, or set vars.virt_type: qemu"}
	}
	return Check{Name: "kvm", Level: Fine, Text: "/dev/kvm exists"}
}

func checkClock(h host.Host) Check {
	synchronized, err := h.ClockSynchronized()
	if err != nil {
		return Check{"clock", Warning, err.Error(), "allow kollet to call adjtimex(2)"}
	}
	if !synchronized {
		return Check{"clock", Warning, "not synchronized", "run chrony or systemd-timesyncd: to Nova and Neutron, a service whose clock is wrong looks dead"}
	}
	return Check{Name: "clock", Level: Fine, Text: "synchronized"}
}

func checkCloudInit(h host.Host) Check {
	if _, err := os.Stat(filepath.Join(h.Run, "cloud-init")); err != nil {
		return Check{Name: "cloud-init", Level: Fine, Text: "did not run on this boot"}
	}
	if !h.HasFile("/var/lib/cloud/instance/boot-finished") {
		return Check{"cloud-init", Warning, "has not finished", "wait for it: cloud-init status --wait"}
	}
	return Check{Name: "cloud-init", Level: Fine, Text: "finished"}
}
