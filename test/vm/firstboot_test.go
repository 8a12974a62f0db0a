package vm

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/test/tiny/image"
)

// services are the services of a small node.
var services = []string{"alpha", "beta", "gamma"}

// tinyNode returns a node file with three services of one image. beta and gamma depend
// on alpha.
func tinyNode(tag string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "profile: none\nimages: {registry: %s, tag: %s}\nservices:\n", repository, tag)
	for i, name := range services {
		fmt.Fprintf(&b, `  %s:
    image: tiny
    command: [serve, "127.0.0.1:700%d", /etc/version]
    stop_grace_period: 5s
    healthcheck: [{exec: [/bin/tiny, ask, "127.0.0.1:700%[2]d"], start_period: 120s, timeout: 30s, interval: 1s}]
`, name, i+1)
		if i > 0 {
			fmt.Fprintf(&b, "    depends_on: [%s]\n", services[0])
		}
	}
	return b.String()
}

func tinyImages(t *testing.T) func(string) {
	return func(dir string) {
		archive(t, filepath.Join(dir, imagesFile), map[string]v1.Image{
			"tiny:v1": image.Image{Tag: "v1"}.Make(t), "tiny:v2": image.Image{Tag: "v2"}.Make(t),
		})
	}
}

// TestFirstBoot boots a node for the first time, with each kind of seed, by kernel and
// by boot loader, and then reboots it.
func TestFirstBoot(t *testing.T) {
	for _, p := range []plan{
		{name: "nocloud", seed: "nocloud", direct: true},
		{name: "configdrive", seed: "config-drive"},
	} {
		t.Run(p.name, func(t *testing.T) {
			p.memory, p.nodeFile, p.tools = 2048, tinyNode("v1"), tinyImages(t)
			n := newNode(t, p)
			n.powerOn()
			n.firstBoot()
			n.rebooted()
		})
	}
}

// firstBoot requires that cloud-init bootstrapped the node.
func (n *node) firstBoot() {
	n.t.Helper()
	status := n.do("cloud-init", "status", "--wait", "--long")
	if status.Status != 0 || !strings.Contains(status.Stdout, "status: done") {
		n.t.Fatalf("cloud-init: exit status %d: %s", status.Status, status.Stdout)
	}
	var result struct {
		V1 struct {
			Datasource string   `json:"datasource"`
			Errors     []string `json:"errors"`
		} `json:"v1"`
	}
	check(n.t, json.Unmarshal([]byte(n.must("cat", "/run/cloud-init/result.json")), &result))
	if len(result.V1.Errors) > 0 {
		n.t.Fatalf("cloud-init reports errors: %q", result.V1.Errors)
	}
	n.up()
	n.t.Logf("%s: cloud-init used data source %s", n.name, result.V1.Datasource)
	if f := n.finished(); !f.OK || f.Generation != 1 || f.Error != "" {
		n.t.Fatalf("%s: %+v", firstboot.FinishedPath, f)
	}
	if s := n.healthy(); s.Generation != 1 || len(s.Services) == 0 {
		n.t.Fatalf("status: %+v", s)
	}
	contains(n.t, n.must("cat", firstboot.LogPath), "starting bootstrap of "+n.name, "bootstrap finished: ")
	contains(n.t, n.must("cat", "/var/log/cloud-init-output.log"), "bootstrap finished: ")
	contains(n.t, n.must("hostname"), n.name)
	contains(n.t, n.must("systemctl", "is-enabled", firstboot.UnitName), "enabled")
	n.must("kollet", "verify")
}

func (n *node) finished() (f firstboot.Finished) {
	n.t.Helper()
	check(n.t, json.Unmarshal([]byte(n.must("cat", firstboot.FinishedPath)), &f))
	return f
}

// rebooted requires that a reboot starts the same containers and does not bootstrap
// again.
func (n *node) rebooted() {
	n.t.Helper()
	before, log, finished := n.healthy(), n.must("cat", firstboot.LogPath), n.finished()
	n.reboot()
	n.up()
	contains(n.t, n.must("cloud-init", "status", "--wait"), "status: done")
	after := n.healthy()
	if after.Generation != before.Generation || len(after.Services) != len(before.Services) {
		n.t.Fatalf("status: %+v, before the reboot %+v", after, before)
	}
	for i, s := range before.Services {
		if now := after.Services[i]; now.Container != s.Container {
			n.t.Fatalf("%s runs in another container: %+v, before %+v", s.Name, now, s)
		}
	}
	if now := n.must("cat", firstboot.LogPath); now != log {
		n.t.Fatalf("a reboot bootstrapped again:\n%s", now)
	}
	if now := n.finished(); !now.Time.Equal(finished.Time) {
		n.t.Fatalf("a reboot wrote %s again: %+v", firstboot.FinishedPath, now)
	}
	contains(n.t, n.must("systemctl", "is-active", firstboot.UnitName), "active")
	n.must("kollet", "verify")
}
