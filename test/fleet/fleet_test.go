package fleet

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestFleet takes five nodes through the life of a fleet. Each part goes on where
// the one before ended.
func TestFleet(t *testing.T) {
	s := newSite(t)
	for number := 1; number <= 5; number++ {
		s.newNode(number)
	}
	for _, tag := range []string{"v1", "v2", "v3", "v4"} {
		image.Image{Tag: tag}.Push(t, s.registry.Addr, "test/tiny")
	}
	c := newControl(s, 5)
	c.inventory()
	for _, n := range s.nodes {
		n.await()
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, *control)
	}{
		{"new nodes are bootstrapped, once", bootstrapped},
		{"a check shows what would change and changes nothing", checked},
		{"images are pulled ahead of the window", pulledAhead},
		{"a node that fails rolls itself back and stops the waves", stopped},
		{"mended, the same command finishes the rest", finished},
		{"the window is rolled back, once", rolledBack},
		{"a node that disappears stops the waves", disappeared},
		{"what it left is seen, and recovered", recovered},
		{"a control machine dies, and another goes on", orphaned},
		{"what somebody changed by hand is found", drifted},
		{"a node without a control machine pulls its playbook", pulledAlone},
	} {
		if !t.Run(part.name, func(t *testing.T) { s.t = t; part.test(t, c) }) {
			return
		}
	}
}

// waves has a canary first, then two nodes at a time.
var waves = []string{"-e", `{"kollet_waves": [1, 2]}`}

// all wants every node on one version.
func (c *control) all(version string) {
	c.t.Helper()
	for _, n := range c.nodes {
		n.wants(version)
	}
}

// generations of all nodes.
func (c *control) generations() []int {
	c.t.Helper()
	var all []int
	for _, n := range c.nodes {
		all = append(all, n.status().Generation)
	}
	return all
}

func bootstrapped(t *testing.T, c *control) {
	c.version("v1")
	c.play("bootstrap").ended(0).says("node1 committed 0 1", "node5 committed 0 1", "5 committed")
	c.all("v1")
	c.play("bootstrap").ended(0).says("5 nothing to do").unchanged()
	c.play("status").ended(0).says("node3 healthy 1", "2 of 2", "docker 20", "5 healthy").unchanged()
}

func checked(t *testing.T, c *control) {
	c.version("v2")
	before := c.nodes[1].run("cat /etc/kollet/node.yaml")
	r := c.play("upgrade", append(waves, "--check", "--diff", "--limit", "node2")...).ended(0)
	r.says("alpha: replace", "- image "+registryAddr+"/test/tiny:v1", "+ image "+registryAddr+"/test/tiny:v2 (to be pulled)", "-v1 +v2", "node2 would change 1").saysNot("node1")
	if after := c.nodes[1].run("cat /etc/kollet/node.yaml"); after != before {
		t.Fatalf("the node file changed:\n%s", after)
	}
	c.nodes[1].wants("v1")
	if _, err := os.Stat(c.path("kollet-windows")); err == nil {
		t.Fatal("a check began a window")
	}
}

func pulledAhead(t *testing.T, c *control) {
	args := []string{"-e", "kollet_tag=v2", "-e", "kollet_pull_jitter=1", "-e", "kollet_pull_throttle=2"}
	c.play("pull", args...).ended(0).says("5 pulled")
	c.play("pull", args...).ended(0).says("5 nothing to pull").unchanged()
	c.all("v1")
	for _, n := range c.nodes {
		n.run("docker image inspect " + registryAddr + "/test/tiny:v2")
	}
	c.registry.Stop() // the window needs it no more
}

func stopped(t *testing.T, c *control) {
	c.probe(c.nodes[2], 7999)
	args := append(waves, append(c.hooks(), "-e", "kollet_window=first")...)
	nodeFile := c.nodes[3].run("cat /etc/kollet/node.yaml")
	r := c.play("upgrade", args...).ended(2)
	r.says("node1 committed 1 2", "node2 committed 1 2", "node3 rolled back 1 1", "node4 untouched", "node5 untouched",
		"2 committed, 1 rolled back, 2 untouched; a node failed, so later waves were not started",
		"node3: rolled back: the node is back on generation 1: alpha: ")
	for i, version := range []string{"v2", "v2", "v1", "v1", "v1"} {
		c.nodes[i].wants(version)
	}
	if got := c.generations(); !slices.Equal(got, []int{2, 2, 1, 1, 1}) {
		t.Fatalf("generations are %v", got)
	}
	for _, n := range c.nodes[3:] {
		if len(n.history()) != 1 || n.run("cat /etc/kollet/node.yaml") != nodeFile {
			t.Fatalf("%s was touched", n.name)
		}
	}
	log := c.hooked()
	for _, n := range c.nodes[:3] { // node3 too: it runs what it ran
		if strings.Count(log, "drain "+n.name) != 2 || !strings.Contains(log, "undrain "+n.name) {
			t.Fatalf("%s was not drained and undrained:\n%s", n.name, log)
		}
	}
	if strings.Count(log, "gate ") != 2 || strings.Contains(log, "gate node3") || strings.Contains(log, "node4") {
		t.Fatalf("others than node1 and node2 passed the gate, or node4 was drained:\n%s", log)
	}
}

func finished(t *testing.T, c *control) {
	c.probe(c.nodes[2], 7001)
	before := c.nodes[0].status()
	args := append(waves, append(c.hooks(), "-e", "kollet_window=first", "-e", "kollet_soak=1")...)
	r := c.play("upgrade", args...).ended(0).says("node1 nothing to do 2 2", "node2 nothing to do 2 2", "node3 committed 1 3", "node5 committed 1 2", "2 nothing to do, 3 committed")
	if n := strings.Count(r.out, "Pausing for 1 seconds"); n != 1 { // after node3's wave: the canary's changed nothing, the last one needs none
		t.Fatalf("soaked %d times\n%s", n, r.out)
	}
	c.all("v2")
	for i, s := range c.nodes[0].status().Services {
		if s.Container != before.Services[i].Container {
			t.Fatalf("%s was replaced on node1, which had nothing to do", s.Name)
		}
	}
	log := c.hooked()
	if strings.Contains(log, "drain node1") || strings.Count(log, "undrain ") != 3 {
		t.Fatalf("others than the three that changed were drained:\n%s", log)
	}
	if !strings.Contains(log, "gate node1") { // it may be the gate that failed the last time
		t.Fatalf("node1 did not pass its gate again:\n%s", log)
	}
}

func rolledBack(t *testing.T, c *control) {
	c.play("rollback", "-e", "kollet_window=none").ended(2).says("there is no record")
	// The last wave had the two nodes that were upgraded last.
	c.play("rollback", "-e", "kollet_window=first", "--check").ended(0).says("node4 would change", "node5 would change", "node1 untouched")
	c.play("rollback", "-e", "kollet_window=first", "-e", "kollet_rollback=all").ended(0).says("5 committed")
	c.all("v1")
	c.play("rollback", "-e", "kollet_window=first", "-e", "kollet_rollback=all").ended(0).says("5 nothing to do").unchanged()
	c.registry.Start()
}

func disappeared(t *testing.T, c *control) {
	c.version("v3")
	lost := c.nodes[3]
	p := c.begin("upgrade", append(waves, "-e", "kollet_window=second")...)
	lost.awaitRecord("cut over alpha") // alpha of the new generation may run, beta is still the old one
	lost.off()
	p.wait().ended(2).says("node3 committed", "node4 unreachable", "it became unreachable", "node5 committed", "4 committed, 1 unreachable")
	for _, n := range c.nodes {
		if n != lost {
			n.wants("v3")
		}
	}
	// It is still unreachable: the upgrade does not start.
	c.version("v4")
	c.play("upgrade", append(waves, "-e", "kollet_window=third")...).ended(2).says("node4 cannot be reached; no node was changed")
	for _, n := range c.nodes {
		if n != lost {
			n.wants("v3")
		}
	}
	c.version("v3")
}

func recovered(t *testing.T, c *control) {
	lost := c.nodes[3]
	lost.on()
	lost.await()
	c.play("status", "-e", "kollet_require_healthy=true").ended(2).says("4 healthy, 1 failed", "node4 failed", "an upgrade was interrupted")
	c.play("recover").ended(0).says("node4 recovered, rolled back", "4 nothing to recover")
	lost.wants("v1")
	c.play("upgrade", append(waves, "-e", "kollet_window=second")...).ended(0).says("4 nothing to do, 1 committed")
	c.all("v3")
}

func orphaned(t *testing.T, c *control) {
	c.version("v4")
	p := c.begin("upgrade", append(waves, "-e", "kollet_window=third")...)
	c.nodes[1].awaitRecord("cut over alpha")
	p.kill()
	// Another control machine begins at once: it waits for the kollets that work.
	c.play("upgrade", append(waves, "-e", "kollet_window=third")...).ended(0)
	c.all("v4")
	record, err := os.ReadFile(c.path("kollet-windows/third.json"))
	check(t, err)
	for _, n := range c.nodes {
		if !bytes.Contains(record, []byte(n.name)) {
			t.Fatalf("the record forgot that the window changed %s:\n%s", n.name, record)
		}
	}
}

func drifted(t *testing.T, c *control) {
	c.play("verify").ended(0).says("5 no drift").unchanged()
	c.nodes[4].run("docker stop beta")
	c.play("verify").ended(2).says("node5 differs", "container beta does not run", "4 no drift, 1 differs")
}

// pulledAlone has node5, which drifted, upgrade itself from a repository.
func pulledAlone(t *testing.T, c *control) {
	c.write("inventory/upgrade.yml", "- import_playbook: kollet.kollet.upgrade\n")
	repository := c.path("inventory")
	c.must("git", "init", "-q", "-b", "wave-2", repository)
	c.must("git", "-C", repository, "add", ".")
	c.must("git", "-C", repository, "-c", "user.name=operator", "-c", "user.email=operator@localhost", "commit", "-q", "-m", "Upgrade")
	out := c.nodes[4].run("cd /run && HOME=/run ANSIBLE_COLLECTIONS_PATH=" + c.collections + " /usr/bin/python3 /usr/bin/ansible-pull -U file://" + repository +
		" -C wave-2 -d /run/checkout -i hosts.yml --limit node5 --connection local -e kollet_window_dir=/run upgrade.yml 2>&1")
	run{c, "ansible-pull", 0, out}.says("node5 committed", "1 committed")
	c.all("v4")
}

// history is that of a node, its latest upgrade first.
func (n *testNode) history() []agent.Entry {
	n.site.t.Helper()
	var h []agent.Entry
	n.ask(&h, "history")
	return h
}

// awaitRecord waits until the journal of an upgrade that goes on holds a text.
func (n *testNode) awaitRecord(text string) {
	n.site.t.Helper()
	seen, _ := filepath.Glob(n.path("disk/var/lib/kollet/journal/*"))
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		now, _ := filepath.Glob(n.path("disk/var/lib/kollet/journal/*"))
		for _, path := range now {
			data, _ := os.ReadFile(path)
			if !slices.Contains(seen, path) && bytes.Contains(data, []byte(text)) {
				return
			}
		}
	}
	n.site.t.Fatalf("%s: no upgrade came to %q", n.name, text)
}

// kill ends a control machine as a power loss does: the playbook, its workers
// and all of its connections.
func (p *playing) kill() {
	p.c.t.Helper()
	check(p.c.t, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
	_ = p.cmd.Wait()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(p.c.t, err)
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if bytes.Contains(line, []byte(controlPaths)) { // masters of connections leave the group
			_ = syscall.Kill(pidOf(path), syscall.SIGKILL)
		}
	}
}
