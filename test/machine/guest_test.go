package machine_test

import (
	"encoding/xml"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestGuestXML(t *testing.T) {
	var domain struct {
		Type    string `xml:"type,attr"`
		Name    string `xml:"name"`
		UUID    string `xml:"uuid"`
		Kernel  string `xml:"os>kernel"`
		Cmdline string `xml:"os>cmdline"`
		Console struct {
			Path   string `xml:"path,attr"`
			Append string `xml:"append,attr"`
		} `xml:"devices>serial>source"`
	}
	if err := xml.Unmarshal([]byte(machine.GuestXML("one & two", "u-u", "/a/b<c")), &domain); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(domain.Type, " ", domain.Name, " ", domain.UUID, " ", domain.Kernel, " ", domain.Console)
	if want := "qemu one & two u-u /a/b<c/vmlinuz {/a/b<c/console.log on}"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The guest runs in QEMU alone, started as libvirt would from GuestXML.
func TestGuestCountsAndPowersOff(t *testing.T) {
	dir := machine.Dir(t, "guest")
	console := machine.PlaceGuest(t, dir)
	var domain struct {
		Memory  string `xml:"memory"`
		Cmdline string `xml:"os>cmdline"`
	}
	if err := xml.Unmarshal([]byte(machine.GuestXML("guest", "uuid", dir)), &domain); err != nil {
		t.Fatal(err)
	}
	monitor := filepath.Join(dir, "monitor")
	cmd := exec.Command("qemu-system-x86_64", "-accel", "tcg", "-machine", "pc", "-m", domain.Memory,
		"-nodefaults", "-display", "none", "-serial", "file:"+console, "-monitor", "unix:"+monitor+",server=on,wait=off",
		"-kernel", dir+"/vmlinuz", "-initrd", dir+"/initrd", "-append", domain.Cmdline)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a guest: %v; install QEMU with: make deps", err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	machine.AwaitTick(t, console, 3)

	conn, err := net.Dial("unix", monitor)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("system_powerdown\n")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("guest ended: %v", err)
	}
	ticks, err := machine.Ticks(console)
	if err != nil {
		t.Fatal(err)
	}
	if err := machine.Unbroken(ticks); err != nil {
		t.Error(err)
	}
}

// A guest with a network interface gets its address by DHCP, and its metadata.
func TestGuestAsksForMetadata(t *testing.T) {
	dir := machine.Dir(t, "guest")
	console := machine.PlaceGuest(t, dir)
	answer := filepath.Join(dir, "answer")
	script := "#!/bin/sh\nread -r method path version\nprintf 'HTTP/1.0 200 OK\\r\\n\\r\\n{\"uuid\": \"%s\", \"name\": \"a\"}' \"$path\"\n"
	if err := os.WriteFile(answer, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("qemu-system-x86_64", "-accel", "tcg", "-machine", "pc", "-m", "192",
		"-nodefaults", "-display", "none", "-serial", "file:"+console,
		"-netdev", "user,id=net0,restrict=on,net=169.254.169.0/24,dhcpstart=169.254.169.15,guestfwd=tcp:169.254.169.254:80-cmd:"+answer,
		"-device", "virtio-net-pci,netdev=net0,romfile=",
		"-kernel", dir+"/vmlinuz", "-initrd", dir+"/initrd", "-append", "console=ttyS0 quiet")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a guest: %v; install QEMU with: make deps", err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	machine.AwaitLine(t, console, "address 169.254.169.15")
	machine.AwaitLine(t, console, "metadata 2 /openstack/latest/meta_data.json")
}
