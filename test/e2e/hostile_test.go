package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestHostileContainers has containers attack kollet, on each engine: without
// privileges, as root in the container. What they must not get at is checked from
// outside.
func TestHostileContainers(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		for name, scenario := range map[string]func(*testing.T, *hostile){
			"a gate that is changed before it opens fails the stage step":     changedGate,
			"a node file that would open a gate is refused":                   gateInNodeFile,
			"a link in a directory that a container writes is not followed":   plantedSource,
			"a gate that is changed when it opens is rolled back":             changedOpenGate,
			"a gate that is changed later hinders nobody":                     gateChangedLater,
			"a copied file that is replaced is drift":                         replacedCopy,
			"a probe that prints without end fails":                           endlessProbe,
			"a service without its first thread is stopped as any other":      withoutFirstThread,
			"control characters do not reach the terminal":                    controlCharacters,
			"a guest names a program of its own, which nobody runs":           impostorsProgram,
			"a gate directory that is filled without end ends the stage step": floodedGate,
			"processes that start each other again are ended":                 respawningProcesses,
			"an image that redirects kollet's mounts fails the stage step":    redirectedMounts,
			"lists of users that do not end leave an upgrade as the way out":  endlessUsers,
		} {
			t.Run(name, func(t *testing.T) { scenario(t, newHostile(t, p)) })
		}
		switch p.engine.Name {
		case "containerd":
			t.Run("a restart that waits for a list of users is ended", func(t *testing.T) { waitingRestart(t, newHostile(t, p)) })
		case "docker": // it is Docker itself that waits
			t.Run("a list of users that Docker waits for is removed", func(t *testing.T) { waitingDocker(t, newHostile(t, p), p.engine) })
		case "podman": // so it is here
			t.Run("a list of users that Podman waits for is empty", func(t *testing.T) { waitingPodman(t, newHostile(t, p)) })
		}
	})
}

// hostile is a node with the service mallory.
type hostile struct {
	*testNode
	engine   string
	registry string
}

const (
	hostSecret = "only root on the host reads this\n"
	sane       = "command: [serve, \"127.0.0.1:7001\"]\n"
)

func newHostile(t *testing.T, p *protocol) *hostile {
	h := &hostile{testNode: newNodeOn(t, p.engine), engine: p.engine.Name, registry: p.registry.Addr}
	h.Write("/outside/secret", hostSecret)
	return h
}

// configure writes the node file. settings are lines of mallory.
func (h *hostile) configure(settings ...string) {
	h.Write("/etc/kollet/node.yaml", fmt.Sprintf("profile: none\nengine: %s\nimages: {registry: %s/test, tag: v1}\nservices:\n  mallory:\n    image: tiny\n    %s",
		h.engine, h.registry, strings.Join(settings, "    ")))
}

// limits of a run of kollet: far more than it needs.
const (
	longestRun = nodetest.Patience
	mostMemory = 256 << 10 // kB
)

// ends requires that kollet ends by itself, with an exit status, in little memory, and
// shows no secret of the host.
func (h *hostile) ends(code int, args ...string) outcome {
	h.T.Helper()
	var stdout, stderr strings.Builder
	cmd := h.Command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	check(h.T, cmd.Start())
	late := time.AfterFunc(longestRun, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait() // the exit status says it
	inTime := late.Stop()
	o := outcome{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
	if !inTime || o.Code != code {
		h.T.Fatalf("kollet %s: exit status %d, want %d; ended by itself: %v\n%s", strings.Join(args, " "), o.Code, code, inTime, o.All())
	}
	if used := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; used > mostMemory {
		h.T.Errorf("kollet %s: used %d kB of memory", strings.Join(args, " "), used)
	}
	if strings.Contains(o.All(), strings.TrimSpace(hostSecret)) {
		h.T.Errorf("kollet %s shows a file of the host:\n%s", strings.Join(args, " "), o.All())
	}
	return o
}

// outside requires that nothing was changed outside of the container, and that kollet
// recorded no file of the host.
func (h *hostile) outside() {
	h.T.Helper()
	if text := h.read("/outside/secret"); text != hostSecret {
		h.T.Errorf("the file of the host is now %q", text)
	}
	entries, err := os.ReadDir(h.Path("/outside"))
	check(h.T, err)
	if len(entries) != 1 {
		h.T.Errorf("something was created on the host: %v", entries)
	}
	check(h.T, filepath.WalkDir(h.Path(filepath.Join(node.StateDir, "journal")), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), strings.TrimSpace(hostSecret)) {
			h.T.Errorf("%s has a file of the host", path)
		}
		return err
	}))
}

// changedGate has the warm-up of a staged container change its gate.
func changedGate(t *testing.T, h *hostile) {
	for _, attack := range []struct{ name, kind, file, target string }{
		{"the FIFO is a link to a file", "link", gate.FileFIFO, "secret"},
		{"the FIFO is a device", "zero", gate.FileFIFO, ""},
		{"open is a link to a path that does not exist", "link", gate.FileOpen, "created"},
		{"open is a pipe", "fifo", gate.FileOpen, ""},
		{"open is a file", "text", gate.FileOpen, ""},
		{"failed is a link to a file", "link", gate.FileFailed, "secret"},
		{"failed is a pipe", "fifo", gate.FileFailed, ""},
		{"failed has no end", "endless", gate.FileFailed, ""},
	} {
		h.configure(sane, fmt.Sprintf("warmup: [/bin/tiny, plant, %s, %s/%s, %q]\n", attack.kind, gate.Dir, attack.file, h.Path("/outside/"+attack.target)))
		if o := h.ends(1, "bootstrap"); !strings.Contains(o.Stderr, "stage mallory") || !strings.Contains(o.Stderr, "nothing was touched") {
			t.Errorf("%s:\n%s", attack.name, o.All())
		}
		h.outside()
	}
	h.configure(sane)
	h.ends(0, "bootstrap")
	h.Healthy(len(h.history()))
}

// gateInNodeFile has the node file put things into mallory's gate, and mount kollet's state.
func gateInNodeFile(t *testing.T, h *hostile) {
	h.configure(sane)
	h.ends(0, "bootstrap")
	h.Write("/etc/kollet/open/gate/open", "x")
	for setting, key := range map[string]string{
		`config: [{content: x, dest: /.kollet/gate/open, owner: root, perm: "0600"}]`:                            "config[0].dest",
		`config: [{source: /etc/kollet/open, dest: /.kollet, merge: true, owner: root, perm: "0600"}]`:           "config[0].dest",
		fmt.Sprintf("volumes: [{source: %s, target: /.kollet/gate/open}]", h.Path("/etc/kollet/open/gate/open")): "volumes[0].target",
		"volumes: [/.kollet]":                                        "volumes[0].target",
		"permissions: [{path: /.kollet/gate, owner: root}]":          "permissions[0].path",
		fmt.Sprintf("volumes: ['%s:/state']", h.Path(node.StateDir)): "volumes[0].source",
	} {
		h.configure(sane, setting+"\n")
		contains(t, h.ends(2, "upgrade").Stderr, "node.yaml:8:", "services.mallory."+key)
	}
	h.Healthy(1)
}

// plantedSource has mallory, without privileges, plant links where a source of its own config is:
// where others can write, too, and as root in a directory of root's, which stays the container's
// if the volume is removed.
func plantedSource(t *testing.T, h *hostile) {
	shared, err := os.MkdirTemp("", "shared") //nolint:usetesting // the test's name has a comma, at which a volume in short ends
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(shared) })
	check(t, os.Chmod(shared, 0o777))
	volume := fmt.Sprintf("volumes: [{source: %s, target: /shared}]\n", shared)
	h.configure(sane, volume)
	h.ends(0, "bootstrap")
	h.Must(0, "exec", "mallory", "--", "/bin/tiny", "plant", "link", "/shared/x.conf", h.Path("/outside/secret"))
	h.Must(0, "exec", "mallory", "--", "/bin/tiny", "plant", "link", "/shared/d", h.Path("/outside"))
	check(t, os.Symlink(shared, h.Path("/etc/kollet/shared"))) // a link of root, which is followed
	for _, source := range []string{"x.conf", "*.conf", "d/secret", "d/sec*", "d"} {
		h.configure(sane, volume, fmt.Sprintf("config: [{source: '/etc/kollet/shared/%s', dest: /copies/, owner: root, perm: \"0600\"}]\n", source))
		contains(t, h.ends(2, "upgrade").Stderr, "config[0]", "is a symbolic link that others than root could have put there")
	}
	check(t, os.Chmod(shared, 0o755))
	for _, volume := range []string{volume, "volumes: []\n"} {
		h.configure(sane, volume, "config: [{source: /etc/kollet/shared/x.conf, dest: /copies/, owner: root, perm: \"0600\"}]\n")
		contains(t, h.ends(2, "upgrade").Stderr, "config[0]", "is a symbolic link that a container could have put there")
	}
	h.Healthy(1)
	h.outside()
}

// history returns the numbers of the node's upgrades.
func (h *hostile) history() []struct{ Generation int } {
	h.T.Helper()
	var all []struct{ Generation int }
	h.Ask(&all, "history")
	return all
}

// changedOpenGate has a service change its gate as soon as it has passed it.
func changedOpenGate(t *testing.T, h *hostile) {
	h.configure(sane)
	h.ends(0, "bootstrap")
	for _, attack := range []struct{ kind, target string }{{"fifo", ""}, {"link", "secret"}} {
		h.configure(
			fmt.Sprintf("command: [plant, %s, %s/%s, %q, serve, \"127.0.0.1:7001\"]\n", attack.kind, gate.Dir, gate.FileOpen, h.Path("/outside/"+attack.target)),
			"healthcheck: [{exec: [/bin/tiny, ask, \"127.0.0.1:7001\"], start_period: 10s, stable: 50ms}]\n")
		contains(t, h.ends(1, "upgrade").Stderr, "changed its gate", "back on generation 1")
		h.Healthy(1)
		h.outside()
	}
}

// gateChangedLater has a committed service change its gate.
func gateChangedLater(t *testing.T, h *hostile) {
	h.configure(sane)
	h.ends(0, "bootstrap")
	h.plants("fifo", gate.Dir+"/"+gate.FileOpen, "")
	h.plants("link", gate.Dir+"/"+gate.FileFIFO, "secret")
	h.plants("link", gate.Dir+"/"+gate.FileFailed, "secret")
	h.plants("directory", gate.Dir+"/"+gate.FileReady, "")
	h.configure(sane, "environment: {ROUND: two}\n")
	for _, command := range []string{"status", "verify", "plan", "guests", "upgrade", "gc", "rollback"} {
		h.ends(0, command)
	}
	h.Healthy(3)
	h.outside()
}

// plants has the service replace a path. target is a path below /outside on the host.
func (h *hostile) plants(kind, path, target string) {
	h.T.Helper()
	h.Must(0, "exec", "mallory", "--", "/bin/tiny", "plant", kind, path, h.Path("/outside/"+target))
}

// replacedCopy has a service replace its config file, which kollet compares.
func replacedCopy(t *testing.T, h *hostile) {
	h.configure(sane, "config: [{content: \"a = 1\", dest: /etc/mallory.conf, owner: root, perm: \"0600\"}]\n")
	h.ends(0, "bootstrap")
	for _, attack := range []struct{ kind, shown string }{
		{"fifo", "it is a FIFO"}, {"zero", "it is a device"}, {"link", "it is a symbolic link"}, {"endless", "was changed"},
	} {
		h.plants(attack.kind, "/etc/mallory.conf", "secret")
		contains(t, h.ends(1, "verify").Stdout, "/etc/mallory.conf", attack.shown)
		contains(t, h.ends(3, "plan", "--exit-code").Stdout, "mallory")
	}
	h.ends(0, "upgrade")
	h.ends(0, "verify")
	h.outside()
}

func endlessProbe(t *testing.T, h *hostile) {
	h.configure(sane, "healthcheck: [{exec: [/bin/tiny, flood], start_period: 10s, interval: 50ms}]\n")
	contains(t, h.ends(1, "bootstrap").Stderr, "it printed more than")
}

// controlCharacters has a service print what a terminal would obey.
func controlCharacters(t *testing.T, h *hostile) {
	h.configure("command: [fail, \"\\e[2J\\e]0;title\\a\\u009b31m\\u202egone\"]\n", "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 10s}]\n")
	for _, o := range []outcome{h.ends(1, "bootstrap"), h.ends(1, "-o", "json", "bootstrap"), h.ends(0, "history", "1"), h.ends(0, "-o", "json", "history", "1"), h.ends(0, "-o", "yaml", "history", "1")} {
		contains(t, o.All(), "title")
		for _, r := range o.All() {
			if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
				t.Fatalf("%U in:\n%q", r, o.All())
			}
		}
	}
}

// impostorsProgram has a guest whose process, without privileges, says that it is a program
// that it wrote into a volume.
func impostorsProgram(t *testing.T, h *hostile) {
	const uuid = "8a1b0000-0000-4000-8000-0000000000ee"
	data, err := os.MkdirTemp("", "data") //nolint:usetesting // the test's name has a comma, at which a volume in short ends
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(data) })
	check(t, os.Chmod(data, 0o777))
	settings := fmt.Sprintf("healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 30s, stable: 50ms, interval: 20ms}]\n    pid: host\n    privileged: true\n    user: root\n    stop_grace_period: 1s\n    volumes: [{source: %s, target: /data}]\n    guests: {list: [/bin/tiny, say, %s]}\n", data, uuid)
	command := "command: [impostor, \"127.0.0.1:7001\", /data/qemu-system-x86_64, " + uuid + "]\n"
	h.configure(command, settings)
	h.Must(0, "bootstrap")
	for _, g := range h.guests() {
		t.Cleanup(func() { _ = syscall.Kill(g.PID, syscall.SIGKILL) })
	}
	contains(t, h.ends(0, "guests").Stdout, uuid)
	h.configure(command, settings, "environment: {A: b}\n")
	contains(t, h.ends(1, "upgrade").Stderr, "/data/qemu-system-x86_64 does not belong to the image")
	if uid, err := os.ReadFile(filepath.Join(data, "qemu-system-x86_64.asked")); err == nil {
		t.Errorf("kollet ran the guest's program as user %s", uid)
	}
	h.ends(0, "upgrade", "--force")
}

// withoutFirstThread has a service end its first thread alone, which does not mean that it
// was killed: the new service, which fails its probe, and a child of the old one.
func withoutFirstThread(t *testing.T, h *hostile) {
	const grace = "stop_grace_period: 1s\n"
	h.configure(sane, grace)
	h.ends(0, "bootstrap")
	h.configure("command: [headless, \"127.0.0.1:7001\"]\n", grace, "healthcheck: [{tcp: \"127.0.0.1:7002\", start_period: 1s}]\n")
	contains(t, h.ends(1, "upgrade").Stderr, "back on generation 1")
	h.Healthy(1)
	h.configure("command: [under, wait, tiny, headless, \"127.0.0.1:7001\"]\n", grace, "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 10s, stable: 50ms}]\n")
	h.ends(0, "upgrade")
	h.configure(sane, grace)
	h.ends(0, "upgrade")
	h.Healthy(len(h.history()))
}

// floodedGate has a warm-up leave processes behind that fill what is in the place of open.
func floodedGate(t *testing.T, h *hostile) {
	h.configure(sane)
	h.ends(0, "bootstrap")
	h.configure("command: [stay]\n", fmt.Sprintf("warmup: [/bin/tiny, litter, %s/%s]\n", gate.Dir, gate.FileOpen))
	contains(t, h.ends(1, "upgrade").Stderr, "stage mallory", "nothing was touched")
	h.ends(0, "recover")
	h.Healthy(1)
	left, err := filepath.Glob(h.Path(filepath.Join(node.StateDir, "generations", "*2*")))
	if err != nil || len(left) > 0 {
		t.Errorf("left of the generation: %q, %v", left, err)
	}
}

// respawningProcesses has a service that hosts guests leave processes behind that start each
// other again faster than they can be killed one by one.
func respawningProcesses(t *testing.T, h *hostile) {
	guests := fmt.Sprintf("pid: host\n    guests: {list: [/bin/tiny, say]}\n    stop_grace_period: 1s\n    volumes: [{source: %s, target: /locks}]\n", t.TempDir())
	h.configure("command: [respawn, \"127.0.0.1:7001\", /locks]\n", guests)
	h.ends(0, "bootstrap")
	left := func() int { return len(nodetest.Processes("/proc/self/exe", "respawner")) }
	for until := time.Now().Add(nodetest.Patience); left() < 20 && time.Now().Before(until); {
		time.Sleep(50 * time.Millisecond)
	}
	h.configure(sane, guests)
	h.ends(0, "upgrade")
	h.Healthy(2)
	if n := left(); n > 0 {
		t.Errorf("%d of them run on", n)
	}
}

// redirectedMounts has images with links where kollet mounts its files.
func redirectedMounts(t *testing.T, h *hostile) {
	h.configure(sane)
	h.ends(0, "bootstrap")
	for tag, links := range map[string]map[string]string{
		"home":      {".kollet": "/run/k", "run/k": "/tmp"},
		"upwards":   {".kollet": "../../../../../../tmp"},
		"gate":      {".kollet/gate": "/tmp"},
		"config":    {"var/lib/kolla": "/run"},
		"elsewhere": {"var/run": "/run"},
	} {
		image.Image{Tag: tag, Links: links}.Push(t, h.registry, "test/tiny")
		h.configure(sane, "volumes: [/var/run/data]\n")
		h.Write(node.DefaultNodeFile, strings.Replace(h.read(node.DefaultNodeFile), "image: tiny", "image: tiny:"+tag, 1))
		if tag == "elsewhere" {
			h.ends(0, "upgrade")
			continue
		}
		contains(t, h.ends(1, "upgrade").Stderr, "nothing was touched: stage mallory: image ", "/test/tiny:"+tag+": what kollet mounts at /", "use an image without such a path")
	}
	h.outside()
}
