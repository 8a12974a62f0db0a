package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// files is a tree of files below a directory. A name that ends in a slash is a
// directory.
type files map[string]string

func (f files) write(t *testing.T, dir string) {
	t.Helper()
	for name, content := range f {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(content), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// machine is a host with these files. Its clock is synchronized, nothing is
// withheld from it, and its disk has a gigabyte free.
func machine(t *testing.T, f files) host.Host {
	t.Helper()
	dir := t.TempDir()
	f.write(t, dir)
	return host.Host{
		Root: dir, Proc: dir + "/proc", Sys: dir + "/sys", Run: dir + "/run",
		DiskFree:            func(string) (int64, error) { return 1 << 30, nil },
		ClockSynchronized:   func() (bool, error) { return true, nil },
		MissingCapabilities: func() ([]string, error) { return nil, nil },
	}
}

// named are services of which only the names matter.
func named(names ...string) (services []generation.Service) {
	for _, name := range names {
		services = append(services, generation.Service{Name: name})
	}
	return services
}

func modulesFor(services ...string) func(host.Host) Check {
	return func(h host.Host) Check { return checkModules(h, named(services...)) }
}

func agentsOf(services ...string) func(host.Host) Check {
	return func(host.Host) Check { return checkAgents(named(services...))[0] }
}

func TestHost(t *testing.T) {
	errBroken := errors.New("broken")
	for _, c := range []struct {
		name   string
		check  func(host.Host) Check
		files  files
		change func(*host.Host)
		level  Verdict
		text   string // part of the check's text
		remedy string // part of the check's remedy
	}{
		{"cgroup v2", checkCgroups, files{"sys/fs/cgroup/cgroup.controllers": ""}, nil, Fine, "version 2", ""},
		{"cgroup v1", checkCgroups, files{"sys/fs/cgroup/pids/": ""}, nil, Fine, "version 1", ""},
		{"no cgroups", checkCgroups, nil, nil, Bad, "/sys/fs/cgroup", "mount the cgroup hierarchies"},

		{"all capabilities", checkCapabilities, nil, nil, Fine, "all are available", ""},
		{"some capabilities", checkCapabilities, nil, func(h *host.Host) {
			h.MissingCapabilities = func() ([]string, error) { return []string{"CAP_SYS_ADMIN", "CAP_BPF"}, nil }
		}, Warning, "this host withholds CAP_SYS_ADMIN, CAP_BPF", "docs/operations.md"},
		{"unknown capabilities", checkCapabilities, nil, func(h *host.Host) {
			h.MissingCapabilities = func() ([]string, error) { return nil, errBroken }
		}, Warning, "broken", "prctl"},

		{"enough space", func(h host.Host) Check { return CheckDisk(h, "/var/lib/kollet") }, nil, nil, Fine, "1GiB free", ""},
		{"little space", func(h host.Host) Check { return CheckDisk(h, "/var/lib/kollet") }, nil, func(h *host.Host) {
			h.DiskFree = func(string) (int64, error) { return leastFree - 1, nil }
		}, Bad, "only 512MiB free", "free 512MiB; `kollet gc`"},
		{"unknown space", func(h host.Host) Check { return CheckDisk(h, "/var/lib/kollet") }, nil, func(h *host.Host) {
			h.DiskFree = func(string) (int64, error) { return 0, errBroken }
		}, Bad, "broken", "make it readable"},

		{"Podman without systemd", checkBoot, nil, nil, Warning, "without systemd nothing starts Podman's containers", "podman start --all"},
		{"Podman's containers stay stopped", checkBoot, files{"run/systemd/system/": "", "etc/systemd/system/kollet-recover.service": "[Unit]\nAfter=podman-restart.service\n"}, nil, Warning, "nothing starts", "systemctl enable podman-restart.service"},
		{"Podman's unit is enabled", checkBoot, files{"run/systemd/system/": "", "etc/systemd/system/default.target.wants/podman-restart.service": ""}, nil, Fine, "podman-restart.service starts", ""},
		{"bootstrap's unit wants Podman's", checkBoot, files{"run/systemd/system/": "", "etc/systemd/system/kollet-recover.service": "[Unit]\nWants=podman.socket podman-restart.service network-online.target\n"}, nil, Fine, "podman-restart.service starts", ""},

		{"no systemd", checkMachined, nil, nil, Fine, "not needed", ""},
		{"no machined", checkMachined, files{"run/systemd/system/": ""}, nil, Warning, "not installed", "systemd-container"},
		{"machined", checkMachined, files{"run/systemd/system/": "", "lib/systemd/systemd-machined": ""}, nil, Fine, "installed", ""},

		{"no modules", modulesFor(), files{"lib/modules/": ""}, nil, Fine, "no loadable modules", ""},
		{"modules loaded", modulesFor(), files{"lib/modules/": "", "proc/modules": "tun 61440 2 vhost_net, Live 0x0\nvhost_net 36864 0 - Live 0x0\nbr_netfilter 32768 0 - Live 0x0\n"}, nil, Fine, "br_netfilter, tun, vhost_net", ""},
		{"modules built in", modulesFor(), files{"lib/modules/": "", "proc/modules": "br_netfilter 32768 0 - Live 0x0\n", "sys/module/tun/": "", "sys/module/vhost_net/": ""}, nil, Fine, "br_netfilter, tun, vhost_net", ""},
		{"modules missing", modulesFor(), files{"lib/modules/": "", "proc/modules": "tunnel4 16384 1 ipip, Live 0x0\n", "sys/module/vhost_net/": ""}, nil, Warning, "not loaded: br_netfilter, tun", "modprobe -a br_netfilter tun"},

		{"no directory of modules", modulesFor(), nil, nil, Warning, "/lib/modules does not exist", "create it"},
		{"no directory of modules for a service", func(h host.Host) Check {
			return checkModules(h, []generation.Service{{Spec: containers.Spec{Mounts: []containers.Mount{{Source: "/lib/modules"}}}}})
		}, nil, nil, Warning, "/lib/modules does not exist", "create it"},
		{"modules of Open vSwitch", modulesFor("openvswitch-db-server", "openvswitch-vswitchd"), files{"proc/modules": "tun 61440 2\n", "sys/module/vhost_net/": "", "sys/module/br_netfilter/": ""}, nil, Warning, "not loaded: openvswitch", "modprobe -a openvswitch,"},
		{"modules of OVN", modulesFor("openvswitch-vswitchd", "ovn-controller"), files{"proc/modules": "openvswitch 1 0\ngeneve 1 0\ntun 1 0\n", "sys/module/vhost_net/": "", "sys/module/br_netfilter/": ""}, nil, Fine, "br_netfilter, geneve, openvswitch, tun, vhost_net", ""},

		{"Linux bridge", agentsOf("nova-compute", "neutron-linuxbridge-agent"), nil, nil, Warning, "Neutron has removed neutron-linuxbridge-agent", "docs/network.md"},

		{"KVM", checkKVM, files{"dev/kvm": ""}, nil, Fine, "/dev/kvm exists", ""},
		{"no KVM", checkKVM, nil, nil, Warning, "/dev/kvm does not exist", "virt_type: qemu"},

		{"clock", checkClock, nil, nil, Fine, "synchronized", ""},
		{"wrong clock", checkClock, nil, func(h *host.Host) {
			h.ClockSynchronized = func() (bool, error) { return false, nil }
		}, Warning, "not synchronized", "chrony"},
		{"unknown clock", checkClock, nil, func(h *host.Host) {
			h.ClockSynchronized = func() (bool, error) { return false, errBroken }
		}, Warning, "broken", "adjtimex"},

		{"no cloud-init", checkCloudInit, nil, nil, Fine, "did not run", ""},
		{"cloud-init runs", checkCloudInit, files{"run/cloud-init/": ""}, nil, Warning, "has not finished", "cloud-init status --wait"},
		{"cloud-init has run", checkCloudInit, files{"run/cloud-init/": "", "var/lib/cloud/instance/boot-finished": ""}, nil, Fine, "finished", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := machine(t, c.files)
			if c.change != nil {
				c.change(&h)
			}
			got := c.check(h)
			if got.Level != c.level || !strings.Contains(got.Text, c.text) || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("%+v", got)
			}
			if (got.Level != Fine) != (got.Remedy != "") {
				t.Errorf("%+v: exactly what is wrong has a remedy", got)
			}
		})
	}
}

func TestAgents(t *testing.T) {
	if got := checkAgents(named("nova-compute", "neutron-openvswitch-agent", "ovn-controller")); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestShared(t *testing.T) {
	dir := t.TempDir()
	files{"run/libvirt/": ""}.write(t, dir)
	if err := os.Symlink(dir+"/run", dir+"/varrun"); err != nil {
		t.Fatal(err)
	}
	h := machine(t, files{"proc/self/mountinfo": "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 22 0:20 / " + dir + "/run rw - tmpfs run rw\n"})
	for _, c := range []struct {
		name, source, propagation string
		want                      string // part of the text; empty: no finding
	}{
		{"a shared mount", "/etc", "rshared", ""},
		{"a private mount", dir + "/run", "rshared", "nova-libvirt mounts " + dir + "/run shared, but the mount at " + dir + "/run is private"},
		{"below a private mount", dir + "/run/libvirt", "shared", "the mount at " + dir + "/run is private"},
		{"through a link", dir + "/varrun/libvirt", "shared", "nova-libvirt mounts " + dir + "/varrun/libvirt shared, but the mount at " + dir + "/run is private"},
		{"a slave mount", dir + "/run", "rslave", ""},
		{"no propagation", dir + "/run", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			services := []generation.Service{{Name: "nova-libvirt", Spec: containers.Spec{Mounts: []containers.Mount{{Source: c.source, Propagation: c.propagation}}}}}
			got := checkShared(h, services)
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("%+v", got)
			case c.want != "" && (len(got) != 1 || got[0].Level != Bad || !strings.Contains(got[0].Text, c.want) || got[0].Remedy != "mount --make-rshared "+dir+"/run"):
				t.Errorf("%+v, want %s", got, c.want)
			}
			if got := checkShared(machine(t, nil), services); len(got) > 0 {
				t.Errorf("without /proc: %+v", got)
			}
		})
	}
}
