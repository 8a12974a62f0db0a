package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestFullDisk rolls back on a disk that the new service filled as soon as its gate
// opened, and on which it takes every byte that becomes free.
func TestFullDisk(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		pushTiny(t, p.registry, "test/tiny", "v2")
		n := p.node(t)
		disk := filepath.Join(machine.Dir(t, "disk"), "disk")
		mountDisk(t, disk)
		stateOn(t, n, disk)
		p.filledInCutover(t, n, disk, "again")
	})
}

// TestFullDiskOfEngine is the same with the engine's data on the full disk: it cannot
// start a container there without the space that was reserved.
func TestFullDiskOfEngine(t *testing.T) {
	disk := filepath.Join(machine.Dir(t, "disk"), "disk")
	mountDisk(t, disk)
	p := &protocol{engine: nodetest.OnDocker(machine.Dockerd(t, machine.DockerRoot(disk+"/docker"))), registry: machine.NewRegistry(t)}
	pushTiny(t, p.registry, "test/tiny", "v1")
	pushTiny(t, p.registry, "test/tiny", "v2")
	n := p.node(t)
	stateOn(t, n, disk)
	p.filledInCutover(t, n, disk, "")
}

// stateOn has a node keep its state on a disk.
func stateOn(t *testing.T, n *testNode, disk string) {
	t.Helper()
	state := n.Path(node.StateDir)
	check(t, os.MkdirAll(disk+"/state", 0o700))
	check(t, os.MkdirAll(state, 0o700))
	check(t, syscall.Mount(disk+"/state", state, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { _ = syscall.Unmount(state, syscall.MNT_DETACH) })
}

// mountDisk mounts a disk on which a bootstrap is not refused.
func mountDisk(t *testing.T, disk string) {
	t.Helper()
	check(t, os.MkdirAll(disk, 0o700))
	check(t, syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=600m"))
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
}

// idle are services of a real node's number: the records of their cutovers and undos do
// not fit into what is left of the journal's last block.
func idle(tag string) string {
	var b strings.Builder
	for i := range 18 {
		fmt.Fprintf(&b, "  idle-%02d: {image: \"tiny:%s\", command: [sulk]}\n", i, tag)
	}
	return b.String()
}

// filledInCutover upgrades a node whose new beta fills the disk, and requires that it is
// rolled back.
func (p *protocol) filledInCutover(t *testing.T, n *testNode, disk, again string) {
	p.configure(n, "v1", "one", idle("v1"))
	n.Must(0, "bootstrap")
	alpha, beta := n.Service("alpha"), n.Service("beta")
	check(t, syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=64m")) // to fill it takes less memory
	check(t, os.MkdirAll(disk+"/fill", 0o700))
	p.configure(n, "v2", "two", idle("v2"))
	data, err := os.ReadFile(n.Path("/etc/kollet/node.yaml"))
	check(t, err)
	n.Write("/etc/kollet/node.yaml", strings.NewReplacer(
		`command: [serve, "127.0.0.1:7002", /etc/beta.conf]`, fmt.Sprintf("command: [fill, /fill/data, %q]\n    volumes: [%q]", again, disk+"/fill:/fill"),
		"user: nova", "user: root",
		`"127.0.0.1:7002", start_period: 30s`, `"127.0.0.1:7002", start_period: 5s`,
	).Replace(string(data)))

	o := n.Must(1, "upgrade", "--force") // the disk is too small for the precheck
	contains(t, o.Stderr, "rolling back", "the node is back on generation 1")
	n.Healthy(1)
	for name, before := range map[string]string{"alpha": alpha.Container, "beta": beta.Container} {
		if now := n.Service(name); now.Container != before {
			t.Errorf("%s runs in another container: %+v", name, now)
		}
	}
	contains(t, n.Must(0, "recover").Stdout, "nothing to recover")
	contains(t, n.Must(0, "history").Stdout, "rolled back")

	check(t, os.Remove(disk+"/fill/data"))
	n.Must(0, "verify")
	all, err := n.Engine.List(t.Context(), map[string]string{node.LabelNode: n.Path(node.StateDir)})
	check(t, err)
	if len(all) != len(n.Status().Services) {
		t.Errorf("%d containers are left", len(all))
	}
	p.configure(n, "v2", "fine", idle("v2"))
	n.Must(0, "upgrade", "--force")
	n.Must(0, "verify")
}
