package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sourcesAreCopied: what a service's sources name on the host is in the container as it was
// when the generation was rendered, also after a rollback.
func sourcesAreCopied(t *testing.T, p *protocol) {
	n := newNodeOn(t, p.engine)
	n.Write("/etc/site/ceph.conf", "fsid = 1\n")
	n.Write("/etc/site/below/key", "one\n")
	n.Write("/etc/keys/a.key", "a\n")
	n.Write("/etc/keys/b.key", "b\n")
	then := time.Unix(1700000000, 0)
	kept := n.Path("/etc/site/ceph.conf")
	check(t, os.Chmod(kept, 0o604))
	check(t, os.Chown(kept, 42436, 42400))
	check(t, os.Chtimes(kept, then, then))
	n.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: v1}
services:
  alpha:
    image: tiny
    command: [serve, "127.0.0.1:7001", /etc/site/below/key]
    stop_grace_period: 5s
    dimensions: {mem_limit: 256m, cpu_shares: 512}
    config:
      - {source: /etc/site, dest: /etc/site, owner: nova, perm: "0640"}
      - {source: /etc/site, dest: /etc/kept, merge: true, preserve_properties: true}
      - {source: "/etc/keys/*.key", dest: /etc/keys/, owner: root, perm: "0600"}
      - {source: /etc/gone, dest: /etc/gone, owner: root, perm: "0600", optional: true}
      - {content: "", dest: /etc/empty, owner: root, perm: "0600"}
    permissions:
      - {path: /etc/kept/below, owner: nova, recurse: true}
    healthcheck: [{tcp: "127.0.0.1:7001", start_period: 30s, stable: 200ms, interval: 50ms}]
`, p.engine.Name, p.registry.Addr))
	inside := func(path string) string {
		return fmt.Sprintf("/proc/%d/root%s", n.Service("alpha").PID, path)
	}
	want := func(generation int, files map[string]string) {
		t.Helper()
		n.Healthy(generation)
		for path, want := range files {
			info, err := os.Lstat(inside(path))
			if err != nil && (want != "" || !errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("%s: %v", path, err)
				continue
			}
			got := ""
			if err == nil {
				data, err := os.ReadFile(inside(path))
				check(t, err)
				got = fmt.Sprintf("%04o %s", info.Mode().Perm(), data)
			}
			if got != want {
				t.Errorf("generation %d: %s is %q, want %q", generation, path, got, want)
			}
		}
		n.Must(0, "verify")
	}
	first := map[string]string{
		"/etc/site/ceph.conf": "0640 fsid = 1\n", "/etc/site/below/key": "0640 one\n", "/etc/kept/ceph.conf": "0604 fsid = 1\n",
		"/etc/keys/a.key": "0600 a\n", "/etc/keys/b.key": "0600 b\n", "/etc/keys/c.key": "", "/etc/gone": "", "/etc/empty": "0600 ",
	}
	n.Must(0, "bootstrap")
	want(1, first)
	info, err := os.Stat(inside("/etc/kept/ceph.conf"))
	check(t, err)
	if !info.ModTime().Equal(then) {
		t.Errorf("its time is %v, want %v", info.ModTime(), then)
	}
	if word := answer(t, "127.0.0.1:7001"); word != "one" {
		t.Errorf("the service read %q", word)
	}

	// The host's files change, and with them nothing until the upgrade.
	n.Write("/etc/site/below/key", "two\n")
	n.Write("/etc/keys/c.key", "c\n")
	check(t, os.Remove(n.Path("/etc/keys/a.key")))
	want(1, first)
	plan := n.Must(0, "plan").Stdout
	for _, path := range []string{"/etc/site/below/key", "/etc/kept/below/key", "/etc/keys/c.key", "/etc/keys/a.key"} {
		if !strings.Contains(plan, path) || strings.Contains(plan, "/etc/empty") {
			t.Errorf("the plan does not have %s, or too much:\n%s", path, plan)
		}
	}
	n.Must(0, "upgrade")
	second := map[string]string{
		"/etc/site/ceph.conf": "0640 fsid = 1\n", "/etc/site/below/key": "0640 two\n", "/etc/kept/ceph.conf": "0604 fsid = 1\n",
		"/etc/keys/a.key": "", "/etc/keys/b.key": "0600 b\n", "/etc/keys/c.key": "0600 c\n", "/etc/empty": "0600 ",
	}
	want(2, second)
	n.Must(0, "upgrade") // with nothing to do
	want(2, second)

	check(t, os.RemoveAll(n.Path("/etc/site"))) // a generation is complete
	n.Must(0, "rollback")
	want(3, first)
	check(t, os.WriteFile(inside("/etc/keys/b.key"), []byte("x"), 0o600))
	if out := n.Must(1, "verify").Stdout; !strings.Contains(out, "/etc/keys/b.key") {
		t.Errorf("verify says\n%s", out)
	}
	check(t, os.RemoveAll(inside("/etc/kept/below")))
	check(t, os.Mkdir(inside("/etc/site/added"), 0o755))
	out := n.Must(1, "verify").Stdout
	for _, text := range []string{"/etc/kept/below in alpha was removed", "/etc/site/added in alpha was added"} {
		if !strings.Contains(out, text) {
			t.Errorf("verify does not say %q:\n%s", text, out)
		}
	}
	if _, err := os.Stat(filepath.Join(n.Path("/var/lib/kollet"), "generations/000003/alpha/config/00-site/below/key")); err != nil {
		t.Error(err)
	}
	n.Write("/etc/site/below/key", "three\n")
	n.Must(0, "upgrade")
	n.Must(0, "verify")
}
