package computenode

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
)

// secretsStayInFiles looks for the message broker's password in everything that kollet
// prints and stores, in what the engine prints about containers, and in the process
// list.
func secretsStayInFiles(t *testing.T, c *compute) {
	c = c.in(t)
	c.Write("/etc/kollet/config/nova.conf", "[DEFAULT]\ndebug = true\n")
	for _, args := range [][]string{
		{"plan"}, {"-o", "json", "plan"}, {"-o", "yaml", "plan"}, {"upgrade"}, {"status"}, {"-o", "json", "status"},
		{"verify"}, {"history"}, {"-o", "json", "history"}, {"guests"}, {"doctor"}, {"gc"},
	} {
		o := c.Kollet(args...)
		if strings.Contains(o.All(), rabbitPassword) {
			t.Errorf("kollet %s shows the password", strings.Join(args, " "))
		}
	}
	held := 0
	check(t, filepath.WalkDir(c.Path(node.StateDir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(rabbitPassword)) {
			return err
		}
		held++
		info, err := d.Info()
		if err == nil && (filepath.Base(filepath.Dir(path)) != "config" || info.Mode().Perm() != 0o400) {
			t.Errorf("%s (mode %v) holds the password", path, info.Mode())
		}
		return err
	}))
	if held == 0 {
		t.Fatal("no file holds the password, so this test would not find it elsewhere either")
	}
	for _, name := range []string{"nova-libvirt", "nova-compute", "neutron-linuxbridge-agent"} {
		container, err := c.Engine.Inspect(t.Context(), name)
		check(t, err)
		for _, cmd := range c.On.Inspect(container) {
			out, err := cmd.CombinedOutput()
			if err != nil || len(out) == 0 {
				t.Fatalf("%v: %v: %s", cmd, err, out)
			}
			if bytes.Contains(out, []byte(rabbitPassword)) {
				t.Errorf("%v shows the password of %s", cmd, name)
			}
		}
	}
	for _, file := range []string{"cmdline", "environ"} {
		lists, err := filepath.Glob("/proc/[0-9]*/" + file)
		check(t, err)
		for _, path := range lists {
			data, _ := os.ReadFile(path)
			if bytes.Contains(data, []byte(rabbitPassword)) && !bytes.Contains(data, []byte("rabbitmqctl")) {
				t.Errorf("%s shows the password: %q", path, data)
			}
		}
	}
}
