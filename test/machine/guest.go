package machine

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Names of a guest's files in its directory.
const (
	guestKernel = "vmlinuz"
	guestInitrd = "initrd"
	Console     = "console.log" // the guest's output
)

// guestMemory is slightly more than Debian's kernel needs, in MiB.
const guestMemory = 128

// guestArgs are the kernel's arguments: output on the serial port, with nothing but the
// guest's count. The others save time under emulation.
const guestArgs = "console=ttyS0 quiet loglevel=0 nokaslr mitigations=off no_timer_check"

// guestXML is a minimal domain: emulated, so that it needs no KVM, without disk and
// network. ACPI provides the power button.
const guestXML = `<domain type='qemu'>
  <name>%[1]s</name>
  <uuid>%[2]s</uuid>
  <memory unit='MiB'>%[4]d</memory>
  <vcpu>1</vcpu>
  <os>
    <type arch='x86_64' machine='pc'>hvm</type>
    <kernel>%[3]s/vmlinuz</kernel>
    <initrd>%[3]s/initrd</initrd>
    <cmdline>%[5]s</cmdline>
  </os>
  <features><acpi/></features>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    <serial type='file'>
      <source path='%[3]s/console.log' append='on'/>
      <target port='0'/>
    </serial>
    <memballoon model='none'/>
  </devices>
</domain>
`

// GuestXML returns a libvirt domain that counts on its console, see Ticks, and shuts
// down when libvirt requests it. dir is the guest's directory as libvirt sees it;
// PlaceGuest fills it.
func GuestXML(name, uuid, dir string) string {
	return fmt.Sprintf(guestXML, escape(name), escape(uuid), escape(dir), guestMemory, guestArgs)
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // a strings.Builder returns no errors
	return b.String()
}

// PlaceGuest copies the guest's kernel and initramfs to dir, which it creates if needed,
// and returns the path of the guest's console.
func PlaceGuest(t TB, dir string) (console string) {
	t.Helper()
	built := filepath.Join(cmp.Or(os.Getenv("KOLLET_BUILD"), filepath.Join(sourceRoot(t), "build")), "guest")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("make the guest's directory: %v", err)
	}
	for _, name := range []string{guestKernel, guestInitrd} {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(built, name)); err != nil {
			t.Fatalf("place the guest: %v; build it with: make guest", err)
		}
	}
	return filepath.Join(dir, Console)
}

// sourceRoot returns the directory of go.mod. Tests run in their package's directory.
func sourceRoot(t TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the sources: %v", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			t.Fatalf("find the sources: no go.mod in %s or above", dir)
		}
	}
}

func copyFile(to, from string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
