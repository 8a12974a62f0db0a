package e2e

import (
	"fmt"
	"os"
	"testing"

	"github.com/kollet/kollet/test/tiny/image"
)

func pushKolla(t *testing.T, p *protocol, tag string) {
	t.Helper()
	image.Kolla(t, tag).Push(t, p.registry.Addr, "test/kolla")
}

// kollaImages: an image that is built like Kolla's runs as it is, and what its scripts do before
// the service is done while it is staged, as far as that is safe.
func kollaImages(t *testing.T, p *protocol) {
	pushKolla(t, p, "v1")
	pushKolla(t, p, "v2")
	n := newNodeOn(t, p.engine)
	n.Write("/etc/kollet/ca/site.crt", "first\n")
	write := func(tag, word string) {
		n.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: %s}
services:
  nova-compute:
    image: kolla
    command: [/bin/tiny, serve, "127.0.0.1:7001", /etc/nova/nova.conf]
    stop_grace_period: 20s
    config:
      - {content: %q, dest: /etc/nova/nova.conf, owner: nova, perm: "0600"}
      - {source: /etc/kollet/ca, dest: /var/lib/kolla/share/ca-certificates, owner: root, perm: "0600"}
    permissions:
      - {path: /var/lib/nova/, owner: nova, perm: "0755"}
    healthcheck: [{exec: [healthcheck_answer, "127.0.0.1:7001"], start_period: 30s, stable: 200ms, interval: 50ms}]
`, p.engine.Name, p.registry.Addr, tag, word))
	}
	runs := func(generation int, word, ca string) {
		t.Helper()
		n.Healthy(generation)
		if got := answer(t, "127.0.0.1:7001"); got != word {
			t.Errorf("generation %d answers %q, want %q", generation, got, word)
		}
		root := fmt.Sprintf("/proc/%d/root", n.Service("nova-compute").PID)
		for path, want := range map[string]string{
			"/etc/trusted-site.crt":  ca,
			"/etc/trusted":           "staged\n", // and not again when the service started
			"/var/lib/nova/extended": "nova-compute\n",
		} {
			if got, err := os.ReadFile(root + path); string(got) != want {
				t.Errorf("generation %d: %s is %q, %v; want %q", generation, path, got, err, want)
			}
		}
		n.Must(0, "verify")
	}
	write("v1", "one")
	n.Must(0, "bootstrap")
	runs(1, "one", "first\n")

	write("v2", "two")
	n.Write("/etc/kollet/ca/site.crt", "second\n")
	contains(t, n.Kollet("plan").Stdout, "/var/lib/kolla/share/ca-certificates/site.crt")
	n.Must(0, "upgrade")
	runs(2, "two", "second\n")

	n.Must(0, "rollback", "1")
	runs(3, "one", "first\n")
}
