package vm

import (
	"os"
	"path/filepath"
	"testing"
)

// newerVar has directories with the programs of a newer Docker, as in PATH. make test-engines
// builds them.
const newerVar = "KOLLET_TEST_NEWER_ENGINE"

// TestGuestUnderNewerDocker upgrades Docker on a node with systemd and cgroup v2 while libvirt and
// a guest run, and then libvirt under the guest.
func TestGuestUnderNewerDocker(t *testing.T) {
	path := os.Getenv(newerVar)
	if path == "" {
		t.Skip("needs a newer Docker; make test-engines builds and runs it")
	}
	n := newGuestNode(t, func(dir string) { placeEngine(t, filepath.Join(dir, "engine"), path) })
	n.powerOn()
	n.firstBoot()
	n.bootGuest()
	guest := n.guest()
	was := n.dockerVersion()
	n.newerDocker()
	is := n.dockerVersion()
	if is == was {
		t.Fatalf("Docker is still %s", is)
	}
	t.Logf("Docker %s is now %s", was, is)
	contains(t, n.must("docker", "info", "--format", "{{.CgroupDriver}} {{.CgroupVersion}}"), "systemd 2")
	n.lives(guest)
	n.healthy()
	n.must("kollet", "plan", "--exit-code")
	n.upgradeUnderSystemd()
}

// placeEngine copies the programs in the directories of path.
func placeEngine(t *testing.T, into, path string) {
	t.Helper()
	check(t, os.MkdirAll(into, 0o755))
	for _, dir := range filepath.SplitList(path) {
		programs, err := os.ReadDir(dir)
		check(t, err)
		for _, p := range programs {
			copyFile(t, filepath.Join(into, p.Name()), filepath.Join(dir, p.Name()))
		}
	}
}

// newerDocker replaces Docker and containerd as packages do. The docker command stays Debian's,
// which asks for an API that Docker 29 has only if it is told to.
func (n *node) newerDocker() {
	n.t.Helper()
	n.must("sh", "-c", "cp "+toolsDir+"/engine/* /usr/local/bin")
	for unit, settings := range map[string]string{
		"containerd": "ExecStart=\nExecStart=/usr/local/bin/containerd\n",
		"docker": "Environment=DOCKER_MIN_API_VERSION=1.24\nEnvironment=PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n" +
			"ExecStart=\nExecStart=/usr/local/bin/dockerd -H fd:// --containerd=/run/containerd/containerd.sock\n",
	} {
		dir := "/etc/systemd/system/" + unit + ".service.d"
		n.must("mkdir", "-p", dir)
		n.write(dir+"/newer.conf", "[Service]\n"+settings)
	}
	n.must("systemctl", "daemon-reload")
	n.must("systemctl", "stop", "docker")
	n.must("systemctl", "restart", "containerd")
	n.must("systemctl", "start", "docker")
}

func (n *node) dockerVersion() string {
	n.t.Helper()
	return n.must("docker", "version", "--format", "{{.Server.Version}}")
}
