package seed_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/seed"
)

// FuzzRead checks that Read does not panic, that every problem has its file, and that
// both formats can be created from what it accepts.
func FuzzRead(f *testing.F) {
	for _, text := range []string{
		full[:strings.Index(full, "files:")], "hostname: a\n", "hostname: a\ninterfaces: [{name: b, addresses: ['::ffff:1.2.3.4/120', 'fe80::1%a/64'], gateways: ['::1']}]\n",
		"hostname: a\ninterfaces: [{name: b, dhcp6: true, addresses: [1.2.3.4/0], routes: [{to: ::/0, via: 1.1.1.1}]}]\n", "hostname: a\nssh_keys: [a AAAA/////w==]\n",
		"hostname: a\nfiles: [{path: /a, content: \"\\0\"}, {}]\ndns: {}\n", "hostname: {}\n", "- a\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), "source") || strings.Contains(string(data), "_data") {
			t.Skip() // not to read this machine's files
		}
		file := filepath.Join(t.TempDir(), "seed.yaml")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := seed.Read(file, seed.Change{})
		if err != nil {
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, file) {
					t.Errorf("a problem of no file: %q", line)
				}
			}
			return
		}
		for _, format := range []seed.Format{seed.NoCloud, seed.ConfigDrive} {
			if _, err := seed.Make(m, format); err != nil {
				t.Errorf("%s: %v", format, err)
			}
		}
	})
}
