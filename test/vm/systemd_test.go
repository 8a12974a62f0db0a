package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/model"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestUnderSystemd runs tests of guests and of what serves them on a node with systemd and
// cgroup v2, which their own machines do not have.
func TestUnderSystemd(t *testing.T) {
	n := newNode(t, plan{
		name: "systemd", seed: "nocloud", direct: true, memory: 3072, nodeFile: tinyNode("v1"),
		tools: func(dir string) {
			tinyImages(t)(dir)
			placeTests(t, filepath.Join(dir, "checkout"), "e2e", "faults", onDocker, onContainerd)
		},
	})
	n.powerOn()
	n.firstBoot()
	contains(t, n.must("stat", "--file-system", "--format", "%T", "/sys/fs/cgroup"), "cgroup2fs")
	n.must("cp", "-r", toolsDir+"/checkout", checkout)
	n.must("cp", filepath.Join(checkout, "bin/busybox"), "/bin/busybox") // it is in the tests' image
	n.test(t, onDocker, "TestConformance/dimensions")
	n.test(t, onContainerd, "TestConformance/dimensions")
	n.test(t, "e2e", "TestTinyGuests")
	// On a machine that is emulated each attempt takes longer, and may take a minute.
	const slow = "KOLLET_CHAOS_START_PERIOD=3m"
	n.test(t, "faults", "TestBirths", slow, "KOLLET_CHAOS_TIME=90s")
	n.test(t, "faults", "TestKillsAtAnyMoment", slow, "KOLLET_CHAOS_TIME=5m", "KOLLET_CHAOS_NODES=1")
}

// checkout has programs and tests on the node where a checkout has them.
const checkout = "/var/tmp/checkout"

// Packages beside test.
const (
	onDocker     = "../containers/docker"
	onContainerd = "../containers/containerd"
)

// placeTests puts tests of packages below test into a directory, and what they would build
// before they run.
func placeTests(t *testing.T, dir string, packages ...string) {
	t.Helper()
	for _, path := range []string{"bin", "model", "machine/tmp"} {
		check(t, os.MkdirAll(filepath.Join(dir, path), 0o755))
	}
	for _, name := range []string{"kollet", "kollet-faults", "kollet-start"} {
		copyFile(t, filepath.Join(dir, "bin", name), program(t, name))
	}
	for _, path := range []string{"/usr/bin/docker-registry", "/bin/busybox"} { // the node image has none
		copyFile(t, filepath.Join(dir, "bin", filepath.Base(path)), path)
	}
	check(t, os.WriteFile(filepath.Join(dir, "bin/tiny"), image.Program(t), 0o755))
	_, err := model.NewVerifier(t.Context(), filepath.Join(dir, "model"))
	check(t, err)
	for _, name := range packages {
		into := filepath.Join(dir, "test", name)
		check(t, os.MkdirAll(into, 0o755))
		run(t, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", filepath.Join(into, "tests"), "../"+name)
	}
}

// test runs a test of another package on the node, which is its machine. It has a network of
// its own, because the node's services use the same ports. settings are for its environment.
func (n *node) test(t *testing.T, name, test string, settings ...string) {
	t.Run(filepath.Base(name)+" "+test, func(t *testing.T) {
		dir := func(path string) string { return filepath.Join(checkout, path) }
		argv := append([]string{
			"unshare", "--net", "--", "sh", "-c", `ip link set lo up && cd "$0" && exec env "$@"`, dir("test/" + name),
			"KOLLET_MACHINE=inside", "KOLLET_MACHINE_DIR=" + dir("machine"), "KOLLET_MACHINE_CGROUP=/kollet-test", "TMPDIR=" + dir("machine/tmp"),
			"PATH=" + dir("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "KOLLET_TINY=" + dir("bin/tiny"), "KOLLET_VERIFIER=" + dir("model"),
		}, settings...)
		a := n.do(append(argv,
			"./tests", "-test.v", fmt.Sprint("-test.timeout=", workTime-time.Minute), "-test.run=^"+test+"$")...)
		t.Logf("exit status %d\n%s%s", a.Status, a.Stdout, a.Stderr)
		if a.Status != 0 || !strings.Contains(a.Stdout, "--- PASS: "+test+" ") {
			t.Errorf("%s failed, or was not run", test)
		}
	})
}
