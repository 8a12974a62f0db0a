package machine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Podman is a Podman service that only the test uses. It implements Docker's API.
type Podman struct {
	Socket string // unix:///…
	Root   string // data root

	d   *daemon
	run string // directory of its state
	off bool   // the power was lost

	command func(args ...string) *exec.Cmd // of the podman program, without the service
}

// podmanConf is containers.conf(5) for a machine without systemd, its journal and a
// bridge. Locks are in files, because all machines have the same /dev/shm.
const podmanConf = `[containers]
log_driver = "k8s-file"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "bounded"
runtime_supports_json = ["bounded"]
[engine.runtimes]
bounded = [%q]
`

// NewPodman starts Podman's service and waits until it answers. It uses the registry
// without TLS. When the test ends, the service and all processes of its containers are
// killed and its data is removed.
func NewPodman(t TB, registry *Registry) *Podman {
	t.Helper()
	podman := program(t, "podman")
	dir := Dir(t, "podman")
	run := fmt.Sprintf("/run/podman-%d", count())
	e := &Podman{Socket: "unix://" + run + "/podman.sock", Root: dir + "/data", run: run}
	files := map[string]string{
		dir + "/containers.conf": fmt.Sprintf(podmanConf, Runtime(t)),
		dir + "/storage.conf":    fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", e.Root, run+"/storage"),
		dir + "/registries.conf": fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", registry.Addr),
	}
	// Debian has it in a package that only its own podman depends on.
	files[dir+"/.config/containers/policy.json"] = `{"default": [{"type": "insecureAcceptAnything"}]}`
	for _, dir := range []string{run, dir + "/.config/containers"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("make podman's directory: %v", err)
		}
	}
	for path, text := range files {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatalf("write podman's configuration: %v", err)
		}
	}
	e.command = func(args ...string) *exec.Cmd {
		cmd := exec.Command(podman, append([]string{"--root=" + e.Root, "--runroot=" + run + "/storage", "--tmpdir=" + run + "/tmp"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "CONTAINERS_CONF="+dir+"/containers.conf", "CONTAINERS_STORAGE_CONF="+dir+"/storage.conf",
			"CONTAINERS_REGISTRIES_CONF="+dir+"/registries.conf")
		return cmd
	}
	e.d = &daemon{
		t: t, name: "podman", log: dir + "/podman.log",
		make:  func() *exec.Cmd { return e.command("system", "service", "--time=0", e.Socket) },
		probe: e.ping,
	}
	t.Cleanup(e.LosePower)
	e.d.tellOnFailure()
	e.Start()
	return e
}

// Start starts the service again, with the same data. It does nothing if it is running. After a loss
// of power it starts containers before, as podman-restart.service does at a boot.
func (e *Podman) Start() {
	e.d.t.Helper()
	if e.off {
		e.off = false
		if err := os.MkdirAll(e.run, 0o755); err != nil {
			e.d.t.Fatalf("make podman's directory: %v", err)
		}
		if out, err := e.command("start", "--all", "--filter", "should-start-on-boot=true").CombinedOutput(); err != nil {
			e.d.t.Logf("podman start --all: %v\n%s", err, out) // one cannot be started, and the others can
		}
	}
	e.d.start()
}

// Stop stops the service as an operator would. Containers keep running.
func (e *Podman) Stop() { e.d.t.Helper(); e.d.end(syscall.SIGTERM) }

// Kill ends the service as a crash would. Containers keep running.
func (e *Podman) Kill() { e.d.t.Helper(); e.d.end(syscall.SIGKILL) }

func (e *Podman) ping(ctx context.Context) error {
	path := strings.TrimPrefix(e.Socket, "unix://")
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	return get(ctx, &client, "http://podman/_ping")
}

// LosePower ends Podman as a power loss would: with all containers, and without what it had in
// /run. Start boots it again.
func (e *Podman) LosePower() {
	e.off = true
	e.d.end(syscall.SIGKILL)
	// Kill the monitors of containers first: they would clean up.
	killAll(func(pid int) bool { return strings.Contains(cmdline(pid), filepath.Join(e.run, "storage")) })
	killAll(func(pid int) bool { return rootBelow(pid, e.Root) })
	if err := removeTree(e.run); err != nil {
		e.d.t.Logf("remove podman's state: %v", err)
	}
}
