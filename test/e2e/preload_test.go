package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/nodetest"
)

// TestPreload runs a Python service that is imported before its gate, on both
// engines. The image has no Python: the service uses that of the machine.
func TestPreload(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		for name, scenario := range map[string]func(*testing.T, *protocol){
			"a preloaded service is like another":              preloadedIsLikeAnother,
			"modules are imported before the gate":             importsBeforeTheGate,
			"a failing import falls back to a plain start":     failingImport,
			"an interrupt ends a service that imports":         interruptedImport,
			"a service that crashes is restarted plainly":      restartedPlainly,
			"what is not a Python script waits as it did":      notPython,
			"a service that crashes in an import changes none": crashingImport,
		} {
			t.Run(name, func(t *testing.T) { scenario(t, p) })
		}
	})
}

// pythonService writes a file with what it can tell about its process, and serves.
const pythonService = `#!/usr/bin/python3
import sys
import json, os, signal, socket
import helper

def proc(name):
    with open("/proc/self/" + name, "rb") as f:
        return f.read().decode("latin-1")

if __name__ == "__main__":
    status = dict(line.split(":", 1) for line in proc("status").splitlines())
    about = {
        "argv": sys.argv, "path": sys.path, "flags": str(sys.flags), "main": sorted(vars(sys.modules["__main__"])),
        "environ": dict(os.environ), "environment": proc("environ"), "cwd": os.getcwd(), "limits": proc("limits"),
        "signals": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "files": sorted(n for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)),
        "cmdline": proc("cmdline"), "comm": proc("comm"), "exe": os.readlink("/proc/self/exe"),
        "children": proc("task/%d/children" % os.getpid()), "buffering": sys.stdout.line_buffering, "encoding": sys.stdout.encoding,
        "status": {k: status[k] for k in ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Threads")},
    }
    server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    with open("/out/about.new", "w") as f:
        json.dump({"about": about, "importing": helper.importing, "imported": helper.imported, "started": helper.now()}, f)
    os.rename("/out/about.new", "/out/about")
    while True:
        connection, _ = server.accept()
        connection.sendall(b"%d python\n" % os.getpid())
        connection.close()
`

// pythonHelper notes times that can be compared with those of files, which come from a
// coarse clock, or since Linux 6.13 from the fine one: what came after a file has the time
// of the fine clock, and what came before it that of CLOCK_REALTIME_COARSE.
const pythonHelper = `
import time
def now():
    return time.time_ns()
def coarse():
    return time.clock_gettime_ns(5)
importing = now()
imported = coarse()
`

// pythonNode is a node with that service. It has the service's directory for files.
type pythonNode struct {
	*testNode
	t *testing.T
	p *protocol
}

func (p *protocol) pythonNode(t *testing.T) pythonNode {
	n := pythonNode{newNodeOn(t, p.engine), t, p}
	check(t, os.Mkdir(n.out(""), 0o777))
	check(t, os.Chmod(n.out(""), 0o777))
	return n
}

func (n pythonNode) out(name string) string { return filepath.Join(n.Path("/out"), name) }

// configure writes the node file, with more lines for the service, and the service's
// module.
func (n pythonNode) configure(helper, more string) {
	n.t.Helper()
	n.Write("/service.py", pythonService)
	n.Write("/helper.py", helper)
	n.Write("/etc/kollet/node.yaml", fmt.Sprintf(`profile: none
engine: %s
images: {registry: %s/test, tag: v1}
services:
  python:
    image: tiny
    user: "1234:5678"
    environment: {PATH: "/srv:/usr/bin", PYTHONDONTWRITEBYTECODE: "1", EMPTY: ""}
    volumes:
      - /usr:/usr:ro
      - /lib:/lib:ro
      - /lib64:/lib64:ro
      - %s:/out
    config:
      - {source: /service.py, dest: /srv/service, owner: root, perm: "0755"}
      - {source: /helper.py, dest: /srv/helper.py, owner: root, perm: "0644"}
    stop_grace_period: 10s
    healthcheck: [{tcp: "127.0.0.1:7003", start_period: 2m, stable: 200ms, interval: 50ms}]
%s`, n.p.engine.Name, n.p.registry.Addr, n.out(""), more))
}

const (
	pythonCommand  = "    pid: host\n    entrypoint: [service, \"7003\", \"two words\"]\n"
	preloadsPython = pythonCommand + "    preload: {python: true, modules: [email.mime.text, no_such_module]}\n"
)

// about is what the service tells about itself. It knows when the import of its module
// began and ended, and when it started, in nanoseconds since 1970.
type about struct {
	About                        map[string]any
	Importing, Imported, Started int64
}

func (n pythonNode) about() about {
	n.t.Helper()
	data, err := os.ReadFile(n.out("about"))
	check(n.t, err)
	var a about
	check(n.t, json.Unmarshal(data, &a))
	return a
}

func preloadedIsLikeAnother(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, pythonCommand)
	n.Must(0, "bootstrap")
	plain := n.about().About
	n.configure(pythonHelper, preloadsPython)
	n.Must(0, "upgrade")
	got := n.about().About
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(plain))) {
		t.Fatalf("got %v, want %v", got, plain)
	}
	for key, want := range plain {
		a, b := text(t, got[key]), text(t, want)
		if key == "environ" || key == "environment" { // Docker's HOSTNAME
			a, b = strings.ReplaceAll(a, "python-g2", "X"), strings.ReplaceAll(b, "python-g1", "X")
		}
		if a != b {
			t.Errorf("%s:\ngot  %s\nwant %s", key, a, b)
		}
	}
	contains(t, n.Must(0, "logs", "python").All(), "not in this image: no_such_module")
	n.Must(0, "verify")
}

func text(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	check(t, err)
	return string(data)
}

func importsBeforeTheGate(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	slow := pythonHelper + "time.sleep(0.5)\nimported = coarse()\n"
	n.configure(slow, pythonCommand)
	n.Must(0, "bootstrap")
	if a, opened := n.about(), n.opened(1); opened > a.Importing || a.Imported > a.Started {
		t.Errorf("plain: gate opened at %d, import began at %d and ended at %d, started at %d", opened, a.Importing, a.Imported, a.Started)
	}
	n.configure(slow, preloadsPython)
	n.Must(0, "upgrade")
	if a, opened := n.about(), n.opened(2); a.Imported > opened || opened > a.Started {
		t.Errorf("preloaded: import began at %d and ended at %d, gate opened at %d, started at %d", a.Importing, a.Imported, opened, a.Started)
	}
}

// opened is when a gate was opened: the open gate is a file.
func (n pythonNode) opened(generation int) (nanoseconds int64) {
	n.t.Helper()
	st, err := os.Stat(filepath.Join(n.Path(node.StateDir), fmt.Sprintf("generations/%06d/python/gate/open", generation)))
	check(n.t, err)
	return st.ModTime().UnixNano()
}

func failingImport(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, pythonCommand)
	n.Must(0, "bootstrap")
	// It fails until the gate is open, which the service cannot see: the second
	// import, after the plain start, finds what the first has left.
	n.configure("import os\nif not os.path.exists('/out/tried'):\n    open('/out/tried', 'w').close()\n    raise OSError('no such device')\n"+pythonHelper, preloadsPython)
	n.Must(0, "upgrade")
	n.Healthy(2)
	contains(t, n.Must(0, "logs", "python").All(), "preload: OSError: no such device; starting without it")
	got := n.about().About
	contains(t, text(t, got["cmdline"]), "/srv/service")
}

func interruptedImport(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, pythonCommand)
	n.Must(0, "bootstrap")
	before := n.Service("python")
	n.configure("open('/out/imports', 'w').close()\nimport time; time.sleep(600)\nopen('/out/imported', 'w').close()\n"+pythonHelper, strings.Replace(preloadsPython, "pid: host", "pid: private", 1)) // as pid 1 it would ignore signals
	cmd := n.Command("upgrade")
	check(t, cmd.Start())
	n.Await("the import begins", func() bool {
		_, err := os.Stat(n.out("imports"))
		return err == nil
	})
	check(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil {
		t.Fatal("the upgrade succeeded")
	}
	if _, err := os.Stat(n.out("imported")); err == nil {
		t.Error("the upgrade waited for the import")
	}
	nodetest.Same(t, before, n.Service("python"))
	n.Healthy(1)
}

func restartedPlainly(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, preloadsPython)
	n.Must(0, "bootstrap")
	first := n.about()
	check(t, syscall.Kill(n.Service("python").PID, syscall.SIGKILL)) // a crash
	again := first
	n.Await("it is restarted", func() bool {
		again = n.about()
		return again.Started != first.Started
	})
	for _, key := range []string{"cmdline", "comm", "signals", "files", "status"} {
		if a, b := text(t, again.About[key]), text(t, first.About[key]); a != b {
			t.Errorf("%s: %s, after the restart %s", key, b, a)
		}
	}
	if strings.Count(n.Must(0, "logs", "python").All(), "not in this image") != 1 {
		t.Error("the restarted service was preloaded again")
	}
}

func notPython(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, "    command: [serve, \"127.0.0.1:7003\"]\n    preload: {python: true}\n")
	n.Must(0, "bootstrap")
	contains(t, n.Must(0, "logs", "python").All(), "preload: /bin/tiny is not a Python script; starting without it")
}

func crashingImport(t *testing.T, p *protocol) {
	n := p.pythonNode(t)
	n.configure(pythonHelper, pythonCommand)
	n.Must(0, "bootstrap")
	before := n.Service("python")
	n.configure("import os\nos.abort()\n", preloadsPython)
	contains(t, n.Must(1, "upgrade").Stderr, "stage python", "nothing was touched")
	nodetest.Same(t, before, n.Service("python"))
	n.Healthy(1)
}
