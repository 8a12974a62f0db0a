package vm

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
)

// node is a node on a virtual machine.
type node struct {
	*vm
}

// plan describes a node to create.
type plan struct {
	name     string
	seed     string // format of kollet seed
	direct   bool   // boot by kernel and ramdisk
	memory   int    // MiB
	outer    bool   // reach the test machine's servers
	bare     bool   // without a node file: nothing is bootstrapped
	nodeFile string
	files    map[string]string // others, by path
	tools    func(dir string)  // adds files to the tools disk
}

// helper is a cloud-config part that starts vmagent, which runs the test's commands, at
// each boot. The node image does not contain it. --no-block and
// DefaultDependencies=no are needed because cloud-init would otherwise wait for units
// that wait for cloud-init.
const helper = `#cloud-config
bootcmd:
  - mkdir -p ` + toolsDir + `
  - mount -o ro /dev/disk/by-id/virtio-tools ` + toolsDir + `
  - systemd-run --no-block --property DefaultDependencies=no --unit vmagent ` + toolsDir + `/vmagent
`

const (
	toolsDir   = "/run/tools"
	imagesFile = "images.tar"
)

// newNode creates a node with user-data and a seed that kollet made, and a tools disk
// that holds the node's images.
func newNode(t testing.TB, p plan) *node {
	t.Helper()
	work := t.TempDir()
	put := func(path, content string) string {
		full := filepath.Join(work, path)
		check(t, os.MkdirAll(filepath.Dir(full), 0o755))
		check(t, os.WriteFile(full, []byte(content), 0o600))
		return full
	}
	if !p.bare {
		put("etc/kollet/node.yaml", p.nodeFile)
	}
	for path, content := range p.files {
		put(path, content)
	}
	user, iso := put("helper.yaml", helper), filepath.Join(work, "seed.iso")
	kollet := program(t, "kollet")
	if !p.bare {
		part := user
		user = filepath.Join(work, "user-data")
		t.Log(run(t, kollet, "userdata", "--root", work, "--part", part, "--gzip", "--to", user,
			"--bootstrap-arg", "--pull=never", "--bootstrap-arg", "--archive="+toolsDir+"/"+imagesFile))
	}
	t.Log(run(t, kollet, "seed", "--hostname", p.name, "--user-data", user, "--format", p.seed, "--to", iso))

	tools := filepath.Join(work, "tools")
	check(t, os.MkdirAll(tools, 0o755))
	copyFile(t, filepath.Join(tools, "vmagent"), program(t, "vmagent"))
	p.tools(tools)

	h := hardware{memory: p.memory, disk: built(t, "node/disk.qcow2"), direct: p.direct, seed: iso, tools: fileSystem(t, tools), outer: p.outer}
	if p.direct {
		h.disk = built(t, "node/root.qcow2")
	}
	n := &node{newVM(t, p.name, h)}
	t.Cleanup(func() {
		if t.Failed() {
			n.tell()
		}
	})
	return n
}

// tell keeps what helps to understand a failure.
func (n *node) tell() {
	if n.client == nil {
		return
	}
	n.keep("journal.log", "journalctl", "--no-pager", "-b", "all")
	n.keep("cloud-init.log", "sh", "-c", "cat /var/log/cloud-init.log /var/log/cloud-init-output.log /run/cloud-init/result.json")
	n.keep("kollet.log", "sh", "-c", "cd /var/lib/kollet; kollet history; kollet status; tail -n +1 /var/log/kollet/* provision-* journal/*; docker ps -a")
	n.t.Logf("the node's disk and logs are in %s\n%s", n.dir, n.lastLines())
}

// fileSystem creates an ext4 image with the content of a directory.
func fileSystem(t testing.TB, dir string) string {
	t.Helper()
	var size int64 = 16 << 20
	check(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		size += info.Size() + info.Size()/16
		return err
	}))
	image := dir + ".ext4"
	run(t, "mke2fs", "-q", "-t", "ext4", "-d", dir, image, fmt.Sprintf("%dk", size>>10))
	return image
}

func copyFile(t testing.TB, to, from string) {
	t.Helper()
	in, err := os.Open(from)
	check(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	check(t, err)
	_, err = io.Copy(out, in)
	check(t, err)
	check(t, out.Close())
}

// ask runs kollet on the node with JSON output and decodes it.
func (n *node) ask(into any, args ...string) {
	n.t.Helper()
	out := n.must(append([]string{"kollet", "-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		n.t.Fatalf("kollet %v: %v\n%s", args, err, out)
	}
}

// up waits until systemd has started all units, and requires that none failed.
func (n *node) up() {
	n.t.Helper()
	a := n.do("systemctl", "is-system-running", "--wait")
	if state := strings.TrimSpace(a.Stdout); state != "running" {
		n.t.Fatalf("systemd reports %q; failed units:\n%s", state, n.do("systemctl", "--failed", "--no-pager").Stdout)
	}
	n.t.Logf("%s is up %.0f s after power on", n.name, time.Since(n.since).Seconds())
}

// healthy waits until all services are healthy.
func (n *node) healthy() agent.Status {
	n.t.Helper()
	var s agent.Status
	for deadline := time.Now().Add(workTime); ; time.Sleep(time.Second) {
		n.ask(&s, "status")
		if s.Healthy && !s.Interrupted {
			return s
		}
		if time.Now().After(deadline) {
			n.t.Fatalf("the node is not healthy: %+v", s)
		}
	}
}

// contains requires each of the words in a text.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Fatalf("%q is missing in:\n%s", word, text)
		}
	}
}
