package computenode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/nodetest"
)

// Images that differ from nova-libvirt's in what their programs say.
const (
	otherQEMU    = "other-qemu"    // QEMU has no machine type pc-i440fx-7.2, and cannot run the canary
	newerLibvirt = "newer-libvirt" // libvirt is version 99
)

const (
	qemuPath    = "/usr/bin/qemu-system-x86_64"
	libvirtPath = "/usr/sbin/libvirtd"
)

// makeVariants pushes the images.
func (c *compute) makeVariants() {
	c.T.Helper()
	c.variant("nova-libvirt", otherQEMU, map[string]string{
		qemuPath + "-original": c.original(qemuPath),
		qemuPath: fmt.Sprintf(`#!/bin/sh
if [ "$*" = "-machine help" ]; then
	%[1]s-original "$@" | grep -v pc-i440fx-7.2
	exit
fi
case "$*" in *guest=kollet-canary,*)
	echo "this QEMU runs no canary" >&2
	exit 1
esac
exec %[1]s-original "$@"
`, qemuPath),
	})
	c.variant("nova-libvirt", newerLibvirt, map[string]string{
		libvirtPath + "-original": c.original(libvirtPath),
		libvirtPath: fmt.Sprintf(`#!/bin/sh
if [ "$*" = --version ]; then
	echo "libvirtd (libvirt) 99.0.0"
	exit
fi
exec %s-original "$@"
`, libvirtPath),
	})
}

// soonStable has fewer seconds to wait than the profile's probe: several upgrades
// follow each other.
const soonStable = `    healthcheck: [{exec: [virsh, -c, "qemu:///system", version, --daemon], start_period: 60s, stable: 200ms}]
`

// unfit tries images whose QEMU or libvirt cannot take over the guest.
func unfit(t *testing.T, c *compute) {
	c = c.in(t)
	c.More = map[string]string{"nova-libvirt": soonStable}
	c.makeVariants()
	before, running := c.Guest(), c.Status()
	if !strings.HasPrefix(before.QEMU, "7.2.") || before.NextQEMU != before.QEMU {
		t.Fatalf("guest: %+v", before)
	}
	refused := func(o nodetest.Outcome, reasons ...string) {
		t.Helper()
		contains(t, o.Stderr, append(reasons, "nothing was touched", "needed by guest "+guestName, "--force")...)
		for _, was := range running.Services {
			nodetest.Same(t, was, c.Service(was.Name))
		}
		c.Lives(before)
	}

	// nova-compute keeps its image.
	c.Images = map[string]string{"nova-compute": c.tag("nova-compute"), "nova-libvirt": otherQEMU}
	c.Configure()
	refused(c.Must(1, "upgrade"), qemuPath+" 7.2.", "has no machine type pc-i440fx-7.2")

	c.Images["nova-libvirt"] = newerLibvirt
	c.More = map[string]string{"nova-libvirt": soonStable + "    guests: {canary: {enabled: true}}\n"}
	c.Configure()
	contains(t, c.Must(0, "upgrade").All(), "a canary booted in")
	c.noCanary()
	c.Lives(before)
	running = c.Status()
	refused(c.Must(1, "rollback"), "libvirt 9.0.0 is older than 99.0.0")
	o := c.Must(0, "rollback", "--force")
	contains(t, o.All(), "warning: continuing with --force", "libvirt 9.0.0 is older than 99.0.0")
	c.Lives(before)
	contains(t, c.Must(0, "history", fmt.Sprint(c.Status().Generation)).Stdout, "libvirt 9.0.0 is older than 99.0.0")
	contains(t, c.Must(0, "guests").Stdout, "QEMU", "same")
	var guests []agent.Guest
	c.Ask(&guests, "guests")
	if guests[0].QEMU != before.QEMU {
		t.Fatalf("guest: %+v", guests[0])
	}
}

// failingCanary tries a QEMU that cannot start guests, and kills an upgrade while its
// canary runs.
func failingCanary(t *testing.T, c *compute) {
	c = c.in(t)
	before, generation := c.Guest(), c.Status().Generation
	c.Images = map[string]string{"nova-compute": c.tag("nova-compute"), "nova-libvirt": otherQEMU}
	c.More = map[string]string{"nova-libvirt": soonStable + "    guests: {canary: {enabled: true}}\n"}
	c.Configure()
	contains(t, c.Must(1, "upgrade", "--force").Stderr, "nova-libvirt: the canary failed", "this QEMU runs no canary", fmt.Sprintf("back on generation %d", generation))
	c.Healthy(generation)
	c.noCanary()
	c.Lives(before)

	c.Images["nova-libvirt"] = newerLibvirt
	c.More = map[string]string{"nova-libvirt": soonStable + "    guests: {canary: {enabled: true, expect: what no firmware prints}}\n"}
	c.Configure()
	cmd := c.Command("upgrade")
	check(t, cmd.Start())
	for deadline := time.Now().Add(2 * time.Minute); canaries(t) == 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no canary was started")
		}
	}
	if guests := c.Guests(); len(guests) != 1 {
		t.Fatalf("the canary is taken for a guest: %+v", guests)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	c.Must(0, "recover")
	c.Healthy(generation)
	c.noCanary()
	c.Lives(before)
	c.Must(0, "verify")
}

// canaries counts the canary's processes.
func canaries(t *testing.T) (n int) {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(t, err)
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && strings.HasPrefix(string(line), qemuPath) && strings.Contains(string(line), "guest=kollet-canary,") {
			n++
		}
	}
	return n
}

// noCanary requires that a canary has left nothing behind.
func (c *compute) noCanary() {
	c.T.Helper()
	if n := canaries(c.T.(*testing.T)); n > 0 {
		c.T.Fatalf("%d processes of the canary run", n)
	}
	left := c.Virsh("list", "--all", "--name")
	left += c.Must(0, "exec", "nova-libvirt", "--", "find", "/run", "/var/log/", "/var/lib/libvirt", "/etc/libvirt", "/var/lib/nova", "/sys/fs/cgroup", "-name", "*kollet*canary*").Stdout
	if strings.Contains(left, "canary") {
		c.T.Fatalf("the canary left:\n%s", left)
	}
}
