package machine

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/kollet/kollet/test/machine/bounded"
)

// Docker is a Docker engine that only the test uses.
type Docker struct {
	Socket string // unix:///…, for DOCKER_HOST
	Root   string // data root
	PID    int    // of dockerd's last start

	d       *daemon
	exec    string // directory for the state of running containers
	pidfile string
}

// DockerOption changes how dockerd is started.
type DockerOption func(*dockerSetup)

type dockerSetup struct {
	args   []string
	root   string
	images string
}

// LiveRestore keeps containers running while dockerd is stopped.
func LiveRestore() DockerOption { return DockerArgs("--live-restore") }

// DockerArgs adds arguments for dockerd, see dockerd(8).
func DockerArgs(args ...string) DockerOption {
	return func(s *dockerSetup) { s.args = append(s.args, args...) }
}

// DockerRoot sets the data root, which is kept when the test ends.
func DockerRoot(dir string) DockerOption { return func(s *dockerSetup) { s.root = dir } }

// DockerImages lets the engine start with the images in the data root of another engine,
// which must not be running. Their layers become hard links if both are on the same file
// system, so this takes seconds even for large images.
func DockerImages(root string) DockerOption { return func(s *dockerSetup) { s.images = root } }

// Dockerd starts a Docker engine and waits until it answers. When the test ends, the
// engine and all processes of its containers are killed and its data is removed.
// Containers can only use the host's network. dockerd accepts registries on loopback
// addresses without TLS.
func Dockerd(t TB, options ...DockerOption) *Docker {
	t.Helper()
	dir := Dir(t, "docker")
	var setup dockerSetup
	for _, option := range options {
		option(&setup)
	}
	// The path of a socket has at most 107 bytes, unix(7).
	run := fmt.Sprintf("/run/docker-%d", count())
	e := &Docker{
		Socket:  "unix://" + run + ".sock",
		Root:    dir + "/data",
		exec:    run,
		pidfile: run + ".pid",
	}
	if setup.root != "" {
		e.Root = setup.root
	}
	if setup.images != "" {
		copyImages(t, setup.images, e.Root)
	}
	// Without this file dockerd reads /etc/docker/daemon.json.
	config := dir + "/daemon.json"
	if err := os.WriteFile(config, []byte("{}\n"), 0o644); err != nil {
		t.Fatalf("write dockerd's configuration: %v", err)
	}
	args := []string{
		"--config-file=" + config, "--data-root=" + e.Root, "--exec-root=" + e.exec,
		"--pidfile=" + e.pidfile, "--host=" + e.Socket,
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
	}
	if systemd() {
		// The machine's own dockerd uses the same containerd.
		args = append(args, "--containerd-namespace="+filepath.Base(run), "--containerd-plugins-namespace="+filepath.Base(run)+"-plugins")
	} else {
		args = append(args, "--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent="+CgroupParent())
	}
	if len(bounded.Missing()) > 0 {
		args = append(args, "--add-runtime=bounded="+Runtime(t), "--default-runtime=bounded")
	}
	args = append(args, setup.args...)
	e.d = &daemon{
		t: t, name: "dockerd", log: dir + "/dockerd.log",
		probe: e.ping,
	}
	e.d.make = func() *exec.Cmd { return e.d.command("dockerd", args...) }
	t.Cleanup(e.LosePower)
	e.d.tellOnFailure()
	e.Start()
	return e
}

// systemd reports whether systemd is the machine's init (sd_booted(3)), which is so only in
// a virtual machine. There dockerd makes cgroups in its default way, through systemd.
func systemd() bool {
	_, err := os.Stat("/run/systemd/system")
	return err == nil
}

// copyImages copies images between data roots. Docker never changes the files of a layer;
// it does change those of its image store.
func copyImages(t TB, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o710); err != nil {
		t.Fatalf("make a data root: %v", err)
	}
	const script = `cp -a "$1/image" "$2"
cp -al "$1/overlay2" "$2" 2>/dev/null || { rm -rf "$2/overlay2"; cp -a "$1/overlay2" "$2"; }`
	if out, err := exec.Command("sh", "-ec", script, "sh", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy the images of %s: %v\n%s", from, err, out)
	}
}

// Start starts dockerd again after Stop or Kill, with the same data. It does nothing if
// dockerd is running.
func (e *Docker) Start() {
	e.d.t.Helper()
	if e.d.running() {
		return
	}
	// dockerd refuses to start if the process in its pidfile exists, and a small pid
	// namespace reuses numbers quickly.
	os.Remove(e.pidfile)
	managed := filepath.Join(e.exec, "containerd/containerd.pid")
	if pid := readPID(managed); pid != 0 && command(pid) != "containerd" {
		os.Remove(managed)
	}
	e.d.start()
	e.PID = e.d.cmd.Process.Pid
}

// Use has the next start use the programs in some directories, written as in PATH, before
// those of the machine: another version of Docker, of containerd and of runc.
func (e *Docker) Use(path string) { e.d.first = path }

// Stop stops dockerd as an operator would, and thereby containers without
// live-restore.
func (e *Docker) Stop() { e.d.t.Helper(); e.d.end(syscall.SIGTERM) }

// Kill ends dockerd as a crash would. Containers keep running. Its containerd exits
// too, by its parent-death signal.
func (e *Docker) Kill() { e.d.t.Helper(); e.d.end(syscall.SIGKILL) }

// Log is the path of dockerd's log.
func (e *Docker) Log() string { return e.d.log }

func (e *Docker) ping(ctx context.Context) error {
	path := strings.TrimPrefix(e.Socket, "unix://")
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		},
	}}
	return get(ctx, &client, "http://docker/_ping")
}

// get requests a page and expects status 200.
func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return nil
}

// LosePower ends dockerd as a power loss would: with everything that it started, guests
// that libvirt has moved to cgroups of their own included, and without what it had in
// /run. Start starts it again.
func (e *Docker) LosePower() {
	e.d.end(syscall.SIGKILL)
	if pid := readPID(filepath.Join(e.exec, "containerd/containerd.pid")); pid != 0 && command(pid) == "containerd" {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	// Kill shims first: they would report the end of their containers and clean up.
	killAll(func(pid int) bool { return strings.Contains(cmdline(pid), e.exec+"/") })
	killAll(func(pid int) bool { return rootBelow(pid, e.Root) })
	if err := removeTree(e.exec); err != nil {
		e.d.t.Logf("remove dockerd's state: %v", err)
	}
	os.Remove(strings.TrimPrefix(e.Socket, "unix://"))
	os.Remove(e.pidfile)
}

// readPID reads a process id from a file; 0 if there is none.
func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return pid
}
