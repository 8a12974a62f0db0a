package kolla

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// Libvirt is the name of the container.
const Libvirt = "nova_libvirt"

const (
	libvirtJSON = `{
  "command": "kolla_nova_libvirt_start",
  "config_files": [{"source": "/var/lib/kolla/config_files/libvirtd.conf", "dest": "/etc/libvirt/libvirtd.conf", "owner": "root", "perm": "0600"}]
}`
	libvirtdConf = "listen_tls = 0\nunix_sock_rw_perms = \"0770\"\nauth_unix_ro = \"none\"\nauth_unix_rw = \"none\"\nlog_outputs = \"3:stderr\"\n"
)

// StartLibvirt creates and starts nova_libvirt with what kolla-ansible gives it (kolla-ansible:
// roles/nova-cell/defaults/main.yml), waits until it answers, and returns its id. more are volumes
// of the operator's (nova_libvirt_extra_volumes).
func (a *Ansible) StartLibvirt(image string, more ...string) string {
	a.t.Helper()
	a.node.Write(Dir(Libvirt)+"/libvirtd.conf", libvirtdConf)
	a.Docker("pull", image)
	id := a.CreateLibvirt(image, libvirtJSON, more...)
	a.AwaitAnswer(Libvirt, "virsh", "version", "--daemon")
	return id
}

// CreateLibvirt creates and starts it with a config.json.
func (a *Ansible) CreateLibvirt(image, configJSON string, more ...string) string {
	a.t.Helper()
	args := []string{
		"--privileged", "--pid", "host", "--cgroupns", "host", "--ulimit", "memlock=67108864:67108864",
		"--volume", a.Modules() + ":/lib/modules:ro", "--volume", "/run:/run:shared", "--volume", "/dev:/dev", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup",
		"--volume", "libvirtd:/var/lib/libvirt", "--volume", "nova_compute:/var/lib/nova/", "--volume", "nova_libvirt_qemu:/etc/libvirt/qemu",
	}
	for _, volume := range more {
		args = append(args, "--volume", volume)
	}
	return a.Create(Libvirt, image, configJSON, append(args, Health("virsh version --daemon")...)...)
}

// Modules is a directory that takes the place of /lib/modules, which a machine may not have.
func (a *Ansible) Modules() string {
	a.t.Helper()
	path := a.node.Path("/modules")
	nodetest.Check(a.t, os.MkdirAll(path, 0o755))
	return path
}

// GuestDir is the directory of a guest on this machine.
func (a *Ansible) GuestDir(name string) string {
	return filepath.Join(a.engine.Volume(a.node.Root, "nova_compute"), "instances", name)
}

// Console is what a guest prints.
func (a *Ansible) Console(name string) string {
	return filepath.Join(a.GuestDir(name), machine.Console)
}

// Define defines a guest with the libvirt of a container.
func (a *Ansible) Define(container, name, uuid string) {
	a.t.Helper()
	machine.PlaceGuest(a.t, a.GuestDir(name))
	at := "/var/lib/nova/instances/" + name
	nodetest.Check(a.t, os.WriteFile(filepath.Join(a.GuestDir(name), "domain.xml"), []byte(machine.GuestXML(name, uuid, at)), 0o644))
	a.Docker("exec", container, "virsh", "define", at+"/domain.xml")
}

// Guest returns the process of a guest with a name or a UUID; false if there is none.
func (a *Ansible) Guest(id string) (guest.Guest, bool) {
	a.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	nodetest.Check(a.t, err)
	for _, path := range all {
		text, _ := os.ReadFile(path) // it may have exited
		line := string(text)
		if !strings.HasPrefix(line, "/usr/bin/qemu-system") || !strings.Contains(line, "guest="+id+",") && !strings.Contains(line, "-uuid\x00"+id+"\x00") {
			continue
		}
		g := guest.Guest{Name: id}
		_, err := fmt.Sscanf(path, "/proc/%d/cmdline", &g.PID)
		nodetest.Check(a.t, err)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", g.PID))
		if err != nil {
			continue // it has exited now
		}
		_, err = fmt.Sscan(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[19], &g.Start) // proc_pid_stat(5)
		nodetest.Check(a.t, err)
		return g, true
	}
	return guest.Guest{}, false
}

// Lives requires that a guest is the process that it was, has counted all the time, and still does.
func (a *Ansible) Lives(was guest.Guest) {
	a.t.Helper()
	if now, ok := a.Guest(was.Name); !ok || !now.Same(was) {
		a.t.Fatalf("guest %s is lost, or another process: %+v, now %+v", was.Name, was, now)
	}
	ticks, err := machine.Ticks(a.Console(was.Name))
	nodetest.Check(a.t, err)
	machine.AwaitTick(a.t, a.Console(was.Name), len(ticks)+3)
	ticks, err = machine.Ticks(a.Console(was.Name))
	nodetest.Check(a.t, err)
	nodetest.Check(a.t, machine.Unbroken(ticks))
}
