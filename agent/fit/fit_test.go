package fit

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

func read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// offer is what a QEMU offers by its help texts.
func offer(t testing.TB, version string) Offer {
	o := Offer{Machines: Machines(read(t, "machines-"+version+".txt"))}
	o.Models, o.Flags = CPUs(read(t, "cpus-"+version+".txt"))
	return o
}

func TestOffers(t *testing.T) {
	for version, c := range map[string]struct {
		machines, models, flags []string
		notMachines, notModels  []string
	}{
		"7.2": {
			machines: []string{"pc", "pc-i440fx-7.2", "pc-i440fx-1.7", "q35", "pc-q35-4.0.1", "microvm", "none"}, notMachines: []string{"Supported", "pc-q35-8.0"},
			models: []string{"486", "Broadwell-IBRS", "Cascadelake-Server-v5", "EPYC-Milan", "qemu64", "host", "max"}, notModels: []string{"x86", "Available", "3dnow", "GraniteRapids"},
			flags: []string{"3dnow", "vmx", "sse4.2", "amd-ssbd", "xtpr"},
		},
		"10.1": {
			machines: []string{"pc", "pc-i440fx-10.1", "pc-q35-10.0", "pc-i440fx-4.2"}, notMachines: []string{"Supported", "pc-i440fx-2.4"},
			models: []string{"486", "486-v1", "Broadwell-IBRS", "qemu64", "max"}, notModels: []string{"x86", "Available", "3dnow"},
			flags: []string{"3dnow", "avx2", "sse4.2"},
		},
	} {
		o := offer(t, version)
		for _, check := range []struct {
			kind       string
			all, names []string
			want       bool
		}{
			{"machine", o.Machines, c.machines, true}, {"machine", o.Machines, c.notMachines, false},
			{"model", o.Models, c.models, true}, {"model", o.Models, c.notModels, false}, {"flag", o.Flags, c.flags, true},
		} {
			for _, name := range check.names {
				found := false
				for _, n := range check.all {
					found = found || n == name
				}
				if found != check.want {
					t.Errorf("QEMU %s: %s %s: %v", version, check.kind, name, found)
				}
			}
		}
	}
}

// arguments of guests, as libvirt wrote them.
var arguments = map[string]string{
	"libvirt 9.0": "/usr/bin/qemu-system-x86_64 -name guest=instance-00000001,debug-threads=on -S" +
		` -object {"qom-type":"secret","id":"masterKey0","format":"raw","file":"/var/lib/libvirt/qemu/domain-1-instance-00000001/master-key.aes"}` +
		` -blockdev {"driver":"file","filename":"/usr/share/OVMF/OVMF_CODE_4M.ms.fd","node-name":"libvirt-pflash0-storage","auto-read-only":true,"discard":"unmap"}` +
		` -blockdev {"node-name":"libvirt-pflash0-format","read-only":true,"driver":"raw","file":"libvirt-pflash0-storage"}` +
		` -blockdev {"driver":"file","filename":"/var/lib/libvirt/qemu/nvram/instance-00000001_VARS.fd","node-name":"libvirt-pflash1-storage","auto-read-only":true,"discard":"unmap"}` +
		` -blockdev {"driver":"file","filename":"/var/lib/nova/instances/a/disk","node-name":"libvirt-1-storage","auto-read-only":true,"discard":"unmap"}` +
		" -machine pc-q35-7.2,usb=off,dump-guest-core=off,memory-backend=pc.ram -accel kvm" +
		" -cpu Skylake-Server-IBRS,ss=on,vmx=on,hypervisor=on,hv-time=on,kvm=off,hle=off,+pcid,l3-cache=on" +
		" -m size=524288k -uuid 7f5f1a3c-6f0e-4b6e-9f3a-2d0a4f7b9c11 -no-user-config -msg timestamp=on",
	"libvirt 4.5": "/usr/libexec/qemu-kvm -name guest=a,debug-threads=on -S -machine pc-i440fx-rhel7.6.0,accel=kvm,usb=off,dump-guest-core=off" +
		" -drive file=/usr/share/OVMF/a,,b.fd,if=pflash,format=raw,unit=0,readonly=on -drive file=/var/lib/nova/instances/a/disk,format=qcow2,if=none,id=drive-virtio-disk0 -m 512",
	"no CPU, but a kernel's command line": "/usr/bin/qemu-system-x86_64 -machine type=pc-i440fx-7.2,usb=off -append -cpu -blockdev {} -msg timestamp=on",
}

func TestNeedsOf(t *testing.T) {
	for name, want := range map[string]Needs{
		"libvirt 9.0": {
			Program: "/usr/bin/qemu-system-x86_64", Machine: "pc-q35-7.2", Model: "Skylake-Server-IBRS",
			Flags: []string{"ss", "vmx", "hypervisor", "hv-time", "pcid", "l3-cache"},
			Files: []string{"/usr/share/OVMF/OVMF_CODE_4M.ms.fd", "/var/lib/libvirt/qemu/nvram/instance-00000001_VARS.fd"},
		},
		"libvirt 4.5":                         {Program: "/usr/libexec/qemu-kvm", Machine: "pc-i440fx-rhel7.6.0", Files: []string{"/usr/share/OVMF/a,b.fd"}},
		"no CPU, but a kernel's command line": {Program: "/usr/bin/qemu-system-x86_64", Machine: "pc-i440fx-7.2"},
	} {
		if got := NeedsOf(strings.Fields(arguments[name])); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if got := NeedsOf(nil); !reflect.DeepEqual(got, Needs{}) {
		t.Errorf("no arguments: %+v", got)
	}
}

func TestMissing(t *testing.T) {
	old, current := offer(t, "7.2"), offer(t, "10.1")
	without := func(flag string) Offer {
		o := old
		o.Flags = strings.Fields(strings.ReplaceAll(" "+strings.Join(old.Flags, " ")+" ", " "+flag+" ", " "))
		return o
	}
	for name, c := range map[string]struct {
		needs          Needs
		offer, running Offer
		want           string
	}{
		"nothing":                        {needs: NeedsOf(strings.Fields(arguments["libvirt 9.0"])), offer: old, running: old},
		"machine type gone":              {needs: Needs{Machine: "pc-i440fx-2.4", Model: "qemu64"}, offer: current, running: old, want: "no machine type pc-i440fx-2.4"},
		"another distribution's":         {needs: Needs{Machine: "pc-i440fx-rhel7.6.0"}, offer: old, want: "no machine type pc-i440fx-rhel7.6.0"},
		"older QEMU":                     {needs: Needs{Machine: "pc-q35-10.0", Model: "GraniteRapids"}, offer: old, running: current, want: "no machine type pc-q35-10.0; no CPU model GraniteRapids"},
		"an alias":                       {needs: Needs{Machine: "q35", Model: "Broadwell-IBRS"}, offer: current},
		"a feature that is gone":         {needs: Needs{Flags: []string{"vmx", "hv-time"}}, offer: without("vmx"), running: old, want: "no CPU feature vmx"},
		"a feature that never was one":   {needs: Needs{Flags: []string{"hv-time", "l3-cache"}}, offer: old, running: old},
		"features of an unknown QEMU":    {needs: Needs{Flags: []string{"vmx"}}, offer: without("vmx")},
		"an answer that has no machines": {needs: Needs{Machine: "pc", Model: "qemu64"}},
	} {
		if got := strings.Join(c.needs.Missing(c.offer, c.running), "; "); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestFindings(t *testing.T) {
	var f Findings
	if f.String() != "" {
		t.Errorf("no findings: %q", f.String())
	}
	f.Add("QEMU 10.1.0 has no machine type pc-i440fx-2.4", "a")
	f.Add("it has no file /x", "b")
	for _, guest := range []string{"c", "d", "e", "f"} {
		f.Add("QEMU 10.1.0 has no machine type pc-i440fx-2.4", guest)
	}
	const want = "QEMU 10.1.0 has no machine type pc-i440fx-2.4, needed by guests a, c, d and 2 more; it has no file /x, needed by guest b"
	if got := f.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]string{
		"libvirtd (libvirt) 9.0.0\n":                                   "9.0.0",
		"/usr/sbin/libvirtd (libvirt) 11.10.0":                         "11.10.0",
		"Using library: libvirt 8.5.0\nRunning hypervisor: QEMU 7.0.0": "8.5.0",
		"libvirtd: error while loading shared libraries: libvirt.so.0": "",
		"": "",
	} {
		if got := Version(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"9.0.0", "10.0.0", true}, {"10.0.0", "9.0.0", false}, {"9.0.0", "9.0.0", false}, {"9.0", "9.0.0", false},
		{"9.0.0", "9.0.1", true}, {"9.10.0", "9.9.0", false}, {"8.5", "8.5.1", true},
	} {
		if got := Older(c.a, c.b); got != c.want {
			t.Errorf("%s is older than %s: %v", c.a, c.b, got)
		}
	}
}

func TestQEMUVersion(t *testing.T) {
	const debian = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c) 2003-2022 Fabrice Bellard and the QEMU Project developers\n"
	program := func(before int, text string) string {
		return strings.Repeat("\x7fELF", before/4) + strings.Repeat(".", before%4) + text + strings.Repeat("\x00\x01", 1<<20)
	}
	for name, c := range map[string]struct{ content, want string }{
		"Debian's answer":        {debian, "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"},
		"Red Hat's answer":       {"QEMU emulator version 9.1.0 (qemu-kvm-9.1.0-15.el9)\nCopyright\n", "9.1.0 (qemu-kvm-9.1.0-15.el9)"},
		"upstream's answer":      {"QEMU emulator version 8.2.2\nCopyright\n", "8.2.2"},
		"an answer of 2014":      {"QEMU emulator version 2.0.0 (Debian 2.0.0+dfsg-2ubuntu1.46), Copyright (c) 2003-2008 Fabrice Bellard\n", "2.0.0 (Debian 2.0.0+dfsg-2ubuntu1.46)"},
		"program":                {program(9_000_001, debian), "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"},
		"no version":             {program(9_000_000, ""), ""},
		"a version in doubt":     {program(100, "QEMU emulator version \x1b[31m\n"), ""},
		"the second is complete": {program(100, "QEMU emulator version %s\x00"+debian), "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"},
		"empty":                  {"", ""},
	} {
		got, err := QEMUVersion(strings.NewReader(c.content))
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, err, c.want)
		}
	}
	// Wherever the text is, also across two reads.
	for at := 1<<20 - 2*maxBanner; at < 1<<20+maxBanner; at += 7 {
		if got, err := QEMUVersion(strings.NewReader(program(at, debian))); got == "" {
			t.Fatalf("at %d: %v", at, err)
		}
	}
}
