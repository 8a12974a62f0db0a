package fit

import (
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// FuzzHelp: nothing makes the parsers panic, and names are single words.
func FuzzHelp(f *testing.F) {
	for _, name := range []string{"machines-7.2.txt", "machines-10.1.txt", "cpus-7.2.txt", "cpus-10.1.txt"} {
		f.Add(read(f, name))
	}
	f.Add("Available CPUs:\nx86\n\n:\nRecognized CPUID flags:\n a b")
	f.Fuzz(func(t *testing.T, help string) {
		models, flags := CPUs(help)
		for _, name := range slices.Concat(Machines(help), models, flags) {
			if name == "" || strings.ContainsFunc(name, unicode.IsSpace) || !strings.Contains(help, name) {
				t.Errorf("%q is no name", name)
			}
		}
	})
}

// FuzzNeedsOf: nothing makes it panic, and files are absolute.
func FuzzNeedsOf(f *testing.F) {
	for _, line := range arguments {
		f.Add(strings.ReplaceAll(line, " ", "\x00"))
	}
	f.Add("-drive\x00file=,,,if=pflash\x00-cpu\x00,+=on,=on")
	f.Fuzz(func(t *testing.T, line string) {
		needs := NeedsOf(strings.Split(line, "\x00"))
		for _, file := range needs.Files {
			if !path.IsAbs(file) {
				t.Errorf("file %q", file)
			}
		}
		if strings.ContainsAny(needs.Machine+needs.Model, ",") {
			t.Errorf("%+v", needs)
		}
		needs.Missing(Offer{Machines: []string{"pc"}, Models: []string{"max"}}, Offer{})
	})
}

// FuzzVersion: what is found is a version, and the order of versions is one.
func FuzzVersion(f *testing.F) {
	f.Add("libvirtd (libvirt) 9.0.0", "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\n")
	f.Add("999999.0", "1.2.3.4.5")
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Version(a), Version(b)
		if x != "" && y != "" && Older(x, y) && Older(y, x) {
			t.Errorf("%s and %s are each older", x, y)
		}
		if q, err := QEMUVersion(strings.NewReader(b)); err == nil && (Version(q) == "" || strings.ContainsFunc(q, unicode.IsControl)) {
			t.Errorf("QEMU's version %q", q)
		}
	})
}
