package vm

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/machine"
)

// Versions of the node's images that make builds. They differ only in a label.
const (
	oldVersion = "26.2.2"
	newVersion = "26.2.2-1"
)

// libvirtNode returns a node file with libvirt only. The probe's times are long, because
// libvirtd starts each QEMU program to learn its capabilities.
func libvirtNode(tag string) string {
	return fmt.Sprintf(`images: {registry: %s, tag: %q}
network: none
vars: {virt_type: qemu}
services:
  nova-compute: {disabled: true}
  nova-libvirt:
    healthcheck: [{exec: [virsh, -c, "qemu:///system", version, --daemon], interval: 2s, start_period: 300s, stable: 3s, timeout: 60s}]
`, repository, tag)
}

const (
	guestName = "ticker"
	guestUUID = "7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11"
	guestDir  = "/var/lib/nova/instances/" + guestUUID // in the container
)

// TestGuestUnderSystemd upgrades libvirt under a guest on a node with systemd and cgroup v2.
func TestGuestUnderSystemd(t *testing.T) {
	n := newGuestNode(t, func(string) {})
	n.powerOn()
	n.firstBoot()
	n.bootGuest()
	n.upgradeUnderSystemd()
}

// newGuestNode creates a node with libvirt and what a guest boots. more adds to its tools disk.
func newGuestNode(t *testing.T, more func(dir string)) *node {
	return newNode(t, plan{
		name: "guest", seed: "config-drive", direct: true, memory: 3072, nodeFile: libvirtNode(oldVersion),
		tools: func(dir string) {
			archive(t, filepath.Join(dir, imagesFile), nodeImages(t, "nova-libvirt:"+oldVersion, "nova-libvirt:"+newVersion))
			machine.PlaceGuest(t, filepath.Join(dir, "guest"))
			more(dir)
		},
	})
}

// upgradeUnderSystemd upgrades libvirt three times: with the guest in the cgroup where libvirt put
// it, in that of the container, from which kollet must move it, and in one below that, as software
// makes them to which a cgroup is delegated.
func (n *node) upgradeUnderSystemd() {
	n.t.Helper()
	guest := n.guest()
	cgroup := n.cgroup(guest.PID)
	n.t.Logf("libvirt put the guest into %s", cgroup)
	// kollet moves this one out of the container, too, to the same scope as libvirtd.
	n.must("docker", "exec", "--detach", "nova-libvirt", "sleep", "infinity")
	n.upgradeUnder(guest, newVersion)
	if now := n.cgroup(guest.PID); now != cgroup {
		n.t.Errorf("the guest was moved from %s to %s", cgroup, now)
	}

	n.exposeGuest(guest, "")
	n.upgradeUnder(guest, oldVersion)
	n.inScope(guest)
	n.exposeGuest(guest, "/delegated/guest")
	n.upgradeUnder(guest, newVersion)
	n.inScope(guest)
	// The scope must survive a reload of systemd and a restart of Docker.
	n.must("systemctl", "daemon-reload")
	n.must("systemctl", "restart", "docker")
	n.lives(guest)
	n.healthy()
}

// inScope requires that the guest is in a scope of kollet, with which systemd does not stop it.
func (n *node) inScope(guest agent.Guest) {
	n.t.Helper()
	scope := n.cgroup(guest.PID)
	contains(n.t, scope, "/machine.slice/kollet-guests-", ".scope")
	contains(n.t, n.must("systemctl", "show", "--property", "ActiveState,KillMode", filepath.Base(scope)), "ActiveState=active", "KillMode=none")
}

// bootGuest defines and starts the guest, and waits until it prints its ticks.
func (n *node) bootGuest() {
	n.t.Helper()
	volume := strings.TrimSpace(n.must("docker", "volume", "inspect", "--format", "{{.Mountpoint}}", "nova_compute"))
	n.must("mkdir", "-p", volume+"/instances/"+guestUUID)
	n.must("cp", toolsDir+"/guest/vmlinuz", toolsDir+"/guest/initrd", volume+"/instances/"+guestUUID)
	n.write(volume+"/instances/"+guestUUID+"/domain.xml", machine.GuestXML(guestName, guestUUID, guestDir))
	n.virsh("define", guestDir+"/domain.xml")
	n.virsh("start", guestName)
	n.awaitTick(3)
}

func (n *node) virsh(args ...string) string {
	n.t.Helper()
	return n.must(append([]string{"kollet", "exec", "nova-libvirt", "--", "virsh"}, args...)...)
}

// ticks returns the guest's last tick, and fails if one before it is missing.
func (n *node) ticks() int {
	n.t.Helper()
	console := n.must("docker", "exec", "nova-libvirt", "cat", guestDir+"/"+machine.Console)
	last := 0
	for line := range strings.Lines(console) {
		number, ok := strings.CutPrefix(strings.TrimSpace(line), "tick ")
		if !ok || !strings.HasSuffix(line, "\n") {
			continue
		}
		now, err := strconv.Atoi(number)
		check(n.t, err)
		if now != last+1 {
			n.t.Fatalf("the guest skipped ticks: %d after %d", now, last)
		}
		last = now
	}
	return last
}

func (n *node) awaitTick(want int) {
	n.t.Helper()
	for deadline := time.Now().Add(workTime); n.ticks() < want; time.Sleep(2 * time.Second) {
		if time.Now().After(deadline) {
			n.t.Fatalf("the guest does not reach tick %d", want)
		}
	}
}

// guest returns the guest, and fails unless exactly one runs.
func (n *node) guest() agent.Guest {
	n.t.Helper()
	var guests []agent.Guest
	n.ask(&guests, "guests")
	if len(guests) != 1 {
		n.t.Fatalf("guests: %+v", guests)
	}
	return guests[0]
}

// cgroup returns the cgroup of a process.
func (n *node) cgroup(pid int) string {
	n.t.Helper()
	text := strings.TrimSpace(n.must("cat", fmt.Sprintf("/proc/%d/cgroup", pid)))
	at, ok := strings.CutPrefix(text, "0::")
	if !ok {
		n.t.Fatalf("not cgroup v2: %q", text)
	}
	return at
}

// exposeGuest moves the guest into its container's cgroup, where libvirt leaves guests
// without machined or with a private cgroup namespace, or into one below it.
func (n *node) exposeGuest(guest agent.Guest, below string) {
	n.t.Helper()
	first := strings.TrimSpace(n.must("docker", "inspect", "--format", "{{.State.Pid}}", "nova-libvirt"))
	pid, err := strconv.Atoi(first)
	check(n.t, err)
	into := "/sys/fs/cgroup" + n.cgroup(pid) + below
	n.must("sh", "-c", fmt.Sprintf("mkdir -p %s && echo %d >%s/cgroup.procs", into, guest.PID, into))
	if now := n.guest(); len(now.Exposed) == 0 {
		n.t.Fatalf("kollet does not report that stopping libvirt would kill the guest: %+v", now)
	}
}

// upgradeUnder upgrades libvirt and requires that the guest survives.
func (n *node) upgradeUnder(guest agent.Guest, tag string) {
	n.t.Helper()
	before := n.ticks()
	n.write(nodeFile, libvirtNode(tag))
	n.t.Log(n.must("kollet", "upgrade"))
	if s := n.healthy(); !strings.HasSuffix(s.Services[0].Image, ":"+tag) {
		n.t.Fatalf("status: %+v", s)
	}
	n.awaitTick(before + 3)
	n.lives(guest)
	n.must("kollet", "verify")
}

// lives requires that the guest is the same process, prints more ticks, and is listed
// by libvirt.
func (n *node) lives(guest agent.Guest) {
	n.t.Helper()
	if now := n.guest(); !now.Same(guest.Guest) {
		n.t.Fatalf("the guest is another process: %+v, now %+v", guest, now)
	}
	n.awaitTick(n.ticks() + 2)
	contains(n.t, n.virsh("list", "--state-running", "--uuid"), guestUUID)
}
