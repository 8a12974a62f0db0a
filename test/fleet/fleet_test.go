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
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/site"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestFleet operates a fleet of five nodes. Each part starts from the state that the
// part before it left.
func TestFleet(t *testing.T) {
	s := site.New(t)
	for number := 1; number <= 5; number++ {
		s.NewNode(number)
	}
	for _, tag := range []string{"v1", "v2", "v3", "v4"} {
		image.Image{Tag: tag}.Push(t, s.Registry.Addr, "test/tiny")
	}
	c := newControl(s, 5)
	c.inventory()
	for _, n := range s.Nodes {
		n.Await()
	}
	for _, part := range []struct {
		name string
		test func(*testing.T, *control)
	}{
		{"new nodes are bootstrapped once", bootstrapped},
		{"check mode shows what would change and changes nothing", checked},
		{"images are pulled before the window", prefetched},
		{"a failing node is rolled back and stops the waves", stopped},
		{"after a fix the same command upgrades the other nodes", finished},
		{"the window is rolled back once", rolledBack},
		{"an unreachable node stops the waves", disappeared},
		{"its interrupted upgrade is reported and recovered", recovered},
		{"another control machine continues after the first one fails", orphaned},
		{"manual changes are reported", drifted},
		{"a node without a control machine pulls its playbook", pulled},
	} {
		if !t.Run(part.name, func(t *testing.T) { s.T = t; part.test(t, c) }) {
			return
		}
	}
}

// waves is one node first, then two nodes at a time.
var waves = []string{"-e", `{"kollet_waves": [1, 2]}`}

// all requires that every node is on a version.
func (c *control) all(version string) {
	c.T.Helper()
	for _, n := range c.nodes {
		n.runsVersion(version)
	}
}

// generations returns the generation of each node.
func (c *control) generations() []int {
	c.T.Helper()
	var all []int
	for _, n := range c.nodes {
		all = append(all, n.status().Generation)
	}
	return all
}

func bootstrapped(t *testing.T, c *control) {
	c.version("v1")
	c.play("bootstrap").exits(0).prints("node1 committed 0 1", "node5 committed 0 1", "5 committed")
	c.all("v1")
	c.play("bootstrap").exits(0).prints("5 nothing to do").unchanged()
	c.play("status").exits(0).prints("node3 healthy 1", "2 of 2", "docker 20", "5 healthy").unchanged()
}

func checked(t *testing.T, c *control) {
	c.version("v2")
	before := c.nodes[1].Run("cat /etc/kollet/node.yaml")
	r := c.play("upgrade", append(waves, "--check", "--diff", "--limit", "node2")...).exits(0)
	r.prints("alpha: replace", "- image "+site.RegistryAddr+"/test/tiny:v1", "+ image "+site.RegistryAddr+"/test/tiny:v2 (to be pulled)", "-v1 +v2", "node2 would change 1").omits("node1")
	if after := c.nodes[1].Run("cat /etc/kollet/node.yaml"); after != before {
		t.Fatalf("the node file changed:\n%s", after)
	}
	c.nodes[1].runsVersion("v1")
	if _, err := os.Stat(c.Path("kollet-windows")); err == nil {
		t.Fatal("check mode began a window")
	}
}

func prefetched(t *testing.T, c *control) {
	args := []string{"-e", "kollet_tag=v2", "-e", "kollet_pull_jitter=1", "-e", "kollet_pull_throttle=2"}
	c.play("pull", args...).exits(0).prints("5 pulled")
	c.play("pull", args...).exits(0).prints("5 nothing to pull").unchanged()
	c.all("v1")
	for _, n := range c.nodes {
		n.Run("docker image inspect " + site.RegistryAddr + "/test/tiny:v2")
	}
	c.Registry.Stop() // the window no longer needs it
}

func stopped(t *testing.T, c *control) {
	c.probe(c.nodes[2], 7999)
	args := append(waves, append(c.hooks(), "-e", "kollet_window=first")...)
	nodeFile := c.nodes[3].Run("cat /etc/kollet/node.yaml")
	r := c.play("upgrade", args...).exits(2)
	r.prints("node1 committed 1 2", "node2 committed 1 2", "node3 rolled back 1 1", "node4 untouched", "node5 untouched",
		"2 committed, 1 rolled back, 2 untouched; a node failed, so later waves were not started",
		"node3: rolled back: the node is back on generation 1: alpha: ")
	for i, version := range []string{"v2", "v2", "v1", "v1", "v1"} {
		c.nodes[i].runsVersion(version)
	}
	if got := c.generations(); !slices.Equal(got, []int{2, 2, 1, 1, 1}) {
		t.Fatalf("generations are %v", got)
	}
	for _, n := range c.nodes[3:] {
		if len(n.history()) != 1 || n.Run("cat /etc/kollet/node.yaml") != nodeFile {
			t.Fatalf("%s was changed", n.Name)
		}
	}
	log := c.hooked()
	for _, n := range c.nodes[:3] { // also node3, which runs its old version
		if strings.Count(log, "drain "+n.Name) != 2 || !strings.Contains(log, "undrain "+n.Name) {
			t.Fatalf("%s was not drained and undrained:\n%s", n.Name, log)
		}
	}
	if strings.Count(log, "gate ") != 2 || strings.Contains(log, "gate node3") || strings.Contains(log, "node4") {
		t.Fatalf("a node other than node1 and node2 passed the gate, or node4 was drained:\n%s", log)
	}
}

func finished(t *testing.T, c *control) {
	c.probe(c.nodes[2], 7001)
	before := c.nodes[0].status()
	args := append(waves, append(c.hooks(), "-e", "kollet_window=first", "-e", "kollet_soak=1")...)
	r := c.play("upgrade", args...).exits(0).prints("node1 nothing to do 2 2", "node2 nothing to do 2 2", "node3 committed 1 3", "node5 committed 1 2", "2 nothing to do, 3 committed")
	if n := strings.Count(r.out, "Pausing for 1 seconds"); n != 1 { // after node3's wave: the first wave changed nothing, and there is no soak after the last one
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
		t.Fatalf("nodes other than the three that changed were drained:\n%s", log)
	}
	if !strings.Contains(log, "gate node1") { // the gate may have been what failed before
		t.Fatalf("node1 did not pass its gate again:\n%s", log)
	}
}

func rolledBack(t *testing.T, c *control) {
	c.play("rollback", "-e", "kollet_window=none").exits(2).prints("there is no record")
	// By default, only the last wave is rolled back.
	c.play("rollback", "-e", "kollet_window=first", "--check").exits(0).prints("node4 would change", "node5 would change", "node1 untouched")
	c.play("rollback", "-e", "kollet_window=first", "-e", "kollet_rollback=all").exits(0).prints("5 committed")
	c.all("v1")
	c.play("rollback", "-e", "kollet_window=first", "-e", "kollet_rollback=all").exits(0).prints("5 nothing to do").unchanged()
	c.Registry.Start()
}

func disappeared(t *testing.T, c *control) {
	c.version("v3")
	lost := c.nodes[3]
	p := c.begin("upgrade", append(waves, "-e", "kollet_window=second")...)
	lost.awaitCutOver("alpha") // alpha may be on the new generation, beta is still on the old one
	lost.Off()
	p.wait().exits(2).prints("node3 committed", "node4 unreachable", "it became unreachable", "node5 committed", "4 committed, 1 unreachable")
	for _, n := range c.nodes {
		if n != lost {
			n.runsVersion("v3")
		}
	}
	// The node is still unreachable, so the upgrade does not start.
	c.version("v4")
	c.play("upgrade", append(waves, "-e", "kollet_window=third")...).exits(2).prints("node4 cannot be reached; no node was changed")
	for _, n := range c.nodes {
		if n != lost {
			n.runsVersion("v3")
		}
	}
	c.version("v3")
}

func recovered(t *testing.T, c *control) {
	lost := c.nodes[3]
	lost.On()
	lost.Await()
	c.play("status", "-e", "kollet_require_healthy=true").exits(2).prints("4 healthy, 1 failed", "node4 failed", "an upgrade was interrupted")
	c.play("recover").exits(0).prints("node4 recovered, rolled back", "4 nothing to recover")
	lost.runsVersion("v1")
	c.play("upgrade", append(waves, "-e", "kollet_window=second")...).exits(0).prints("4 nothing to do, 1 committed")
	c.all("v3")
}

func orphaned(t *testing.T, c *control) {
	c.version("v4")
	p := c.begin("upgrade", append(waves, "-e", "kollet_window=third")...)
	c.nodes[1].awaitCutOver("alpha")
	p.kill()
	// Another control machine begins at once, and waits for the running kollet processes.
	c.play("upgrade", append(waves, "-e", "kollet_window=third")...).exits(0)
	c.all("v4")
	record, err := os.ReadFile(c.Path("kollet-windows/third.json"))
	check(t, err)
	for _, n := range c.nodes {
		if !bytes.Contains(record, []byte(n.Name)) {
			t.Fatalf("the window's record lacks %s, which it changed:\n%s", n.Name, record)
		}
	}
}

func drifted(t *testing.T, c *control) {
	c.play("verify").exits(0).prints("5 no drift").unchanged()
	c.nodes[4].Run("docker stop beta")
	c.play("verify").exits(2).prints("node5 differs", "container beta is not running", "4 no drift, 1 differs")
}

// pulled upgrades node5, which drifted, with ansible-pull from a Git repository.
func pulled(t *testing.T, c *control) {
	c.Write("inventory/upgrade.yml", "- import_playbook: kollet.kollet.upgrade\n")
	repository := c.Path("inventory")
	c.Must("git", "init", "-q", "-b", "wave-2", repository)
	c.Must("git", "-C", repository, "add", ".")
	c.Must("git", "-C", repository, "-c", "user.name=operator", "-c", "user.email=operator@localhost", "commit", "-q", "-m", "Upgrade")
	out := c.nodes[4].Run("cd /run && HOME=/run ANSIBLE_COLLECTIONS_PATH=" + c.collections + " /usr/bin/python3 /usr/bin/ansible-pull -U file://" + repository +
		" -C wave-2 -d /run/checkout -i hosts.yml --limit node5 --connection local -e kollet_window_dir=/run upgrade.yml 2>&1")
	run{c, "ansible-pull", 0, out}.prints("node5 committed", "1 committed")
	c.all("v4")
}

// history returns the node's history, latest upgrade first.
func (n testNode) history() []agent.Entry {
	n.Site.T.Helper()
	var h []agent.Entry
	n.Ask(&h, "history")
	return h
}

// awaitCutOver waits until an upgrade that begins now begins to cut over a service.
func (n testNode) awaitCutOver(service string) {
	n.Site.T.Helper()
	dir := n.Path("disk/var/lib/kollet/journal")
	seen, err := journal.List(dir)
	check(n.Site.T, err)
	for until := time.Now().Add(2 * time.Minute); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		now, err := journal.List(dir)
		check(n.Site.T, err)
		for _, to := range now {
			if slices.Contains(seen, to) {
				continue
			}
			records, _ := journal.Read(dir, to) // fails until the first record is complete
			if slices.ContainsFunc(records, func(r journal.Record) bool {
				return r.Step.Kind == journal.CutOver && slices.Contains(r.Step.Services, service)
			}) {
				return
			}
		}
	}
	n.Site.T.Fatalf("%s: no upgrade began to cut over %s", n.Name, service)
}

// kill kills the playbook, its workers and all of their connections, as a power loss of
// the control machine does.
func (p *playing) kill() {
	p.c.T.Helper()
	check(p.c.T, syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL))
	_ = p.cmd.Wait()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	check(p.c.T, err)
	for _, path := range all {
		line, _ := os.ReadFile(path)
		if bytes.Contains(line, []byte(controlPaths)) { // processes of shared SSH connections are not in the process group
			_ = syscall.Kill(pidOf(path), syscall.SIGKILL)
		}
	}
}
