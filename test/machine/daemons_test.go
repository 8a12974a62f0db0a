package machine_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// image loads an image that contains only busybox into the engine, as name.
func image(t *testing.T, e *machine.Docker, name string) {
	t.Helper()
	dir := t.TempDir()
	script := `mkdir -p root/bin root/tmp; cp "$(command -v busybox)" root/bin/busybox
for a in sh sleep echo cat; do ln -s busybox root/bin/$a; done
tar -C root -cf image.tar .`
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a root file system: %v\n%s", err, out)
	}
	docker(t, e, "import", dir+"/image.tar", name)
}

// docker runs the docker command and returns its output.
func docker(t *testing.T, e *machine.Docker, args ...string) string {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.Socket)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// state returns whether a container runs, and the pid of its first process.
func state(t *testing.T, e *machine.Docker, id string) string {
	t.Helper()
	return docker(t, e, "inspect", "--format={{.State.Running}} {{.State.Pid}}", id)
}

func TestPrivilegedContainer(t *testing.T) {
	e := machine.Dockerd(t)
	image(t, e, "busybox")
	id := docker(t, e, "run", "-d", "--privileged", "--pid=host", "--net=host", "busybox", "sleep", "1000")
	if got := docker(t, e, "exec", "--privileged", id, "echo", "hello"); got != "hello" {
		t.Errorf("exec printed %q", got)
	}
	// Docker knows capabilities up to number 37 and grants all of those.
	const known = 1<<38 - 1
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	want := capabilities(t, string(own)) & known
	if got := capabilities(t, docker(t, e, "exec", "--privileged", id, "cat", "/proc/self/status")) & known; got != want {
		t.Errorf("capabilities inside are %x, want %x", got, want)
	}
	// The container's cgroup is below the machine's.
	if got := docker(t, e, "exec", id, "cat", "/proc/self/cgroup"); !strings.Contains(got, machine.CgroupParent()+"/"+id) {
		t.Errorf("cgroups inside:\n%s\nwant below %s", got, machine.CgroupParent())
	}
}

// capabilities returns the bounding set in the text of /proc/PID/status, proc(5).
func capabilities(t *testing.T, status string) uint64 {
	t.Helper()
	for line := range strings.Lines(status) {
		if hex, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			set, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return set
		}
	}
	t.Fatalf("no CapBnd in:\n%s", status)
	return 0
}

// An engine can start with the images of another one, which keeps them.
func TestDockerImages(t *testing.T) {
	root := machine.Dir(t, "images")
	from := machine.Dockerd(t, machine.DockerRoot(root))
	image(t, from, "busybox")
	from.Stop()
	for range 2 {
		e := machine.Dockerd(t, machine.DockerImages(root))
		if got := docker(t, e, "run", "--rm", "--net=host", "busybox", "sh", "-c", "cat /dev/null && rm /bin/cat && echo hello"); got != "hello" {
			t.Errorf("it printed %q", got)
		}
		docker(t, e, "image", "rm", "busybox")
	}
	from.Start()
	if got := docker(t, from, "run", "--rm", "--net=host", "busybox", "echo", "still here"); got != "still here" {
		t.Errorf("the first engine printed %q", got)
	}
}

func TestDockerStopsAndStarts(t *testing.T) {
	e := machine.Dockerd(t)
	image(t, e, "busybox")
	id := docker(t, e, "run", "-d", "--init", "--net=host", "busybox", "sleep", "1000")
	first := e.PID
	e.Stop()
	e.Start()
	if e.PID == first {
		t.Error("the same process after Stop and Start")
	}
	if got := state(t, e, id); got != "false 0" {
		t.Errorf("after Stop and Start the container's state is %s", got)
	}
	docker(t, e, "start", id)
	e.Kill()
	e.Start()
	docker(t, e, "start", id)
	if got := docker(t, e, "exec", id, "echo", "hello"); got != "hello" {
		t.Errorf("exec printed %q", got)
	}
}

func TestLiveRestore(t *testing.T) {
	e := machine.Dockerd(t, machine.LiveRestore())
	image(t, e, "busybox")
	id := docker(t, e, "run", "-d", "--net=host", "busybox", "sleep", "1000")
	want := state(t, e, id)
	for name, end := range map[string]func(){"Stop": e.Stop, "Kill": e.Kill} {
		end()
		e.Start()
		if got := state(t, e, id); got != want {
			t.Errorf("after %s and Start the container's state is %s, before %s", name, got, want)
		}
	}
}

func TestDockerLeavesNothing(t *testing.T) {
	var root string
	t.Run("", func(t *testing.T) {
		e := machine.Dockerd(t)
		root = e.Root
		image(t, e, "busybox")
		// It outlives its container, in another session and outside of its cgroup.
		script := `(for p in /sys/fs/cgroup/cgroup.procs /sys/fs/cgroup/*/cgroup.procs; do
			test -e $p && echo 0 >$p; done; exec sleep 54321) & sleep 1000`
		docker(t, e, "run", "-d", "--privileged", "--pid=host", "--net=host", "-v", "/sys/fs/cgroup:/sys/fs/cgroup", "busybox", "sh", "-c", script)
	})
	if _, err := os.Stat(root); err == nil {
		t.Errorf("%s is left", root)
	}
	if text, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(text), root) {
		t.Errorf("mounts are left:\n%s", text)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range processes {
		text, _ := os.ReadFile(path)
		for _, name := range []string{"54321", "dockerd", "containerd"} {
			if strings.Contains(string(text), name) {
				t.Errorf("a process is left: %q", text)
			}
		}
	}
}

func TestRegistry(t *testing.T) {
	e := machine.Dockerd(t)
	r := machine.NewRegistry(t)
	name := r.Addr + "/some/busybox:1"
	image(t, e, name)
	docker(t, e, "push", name)
	docker(t, e, "rmi", name)
	for _, end := range []func(){r.Stop, r.Kill} {
		end()
		if conn, err := net.Dial("tcp", r.Addr); err == nil {
			conn.Close()
			t.Error("it still listens")
		}
		r.Start()
		docker(t, e, "pull", name)
		docker(t, e, "rmi", name)
	}
}

func TestContainerd(t *testing.T) {
	e := machine.NewContainerd(t)
	ctr := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("ctr", append([]string{"--address", e.Address, "--namespace", "kollet"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ctr %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	root := machine.Dir(t, "root")
	script := fmt.Sprintf(`mkdir %[1]s/bin; cp "$(command -v busybox)" %[1]s/bin/busybox`, root)
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("make a root file system: %v\n%s", err, out)
	}
	ctr("run", "-d", "--runc-binary", machine.Runtime(t), "--privileged", "--rootfs", root, "one", "/bin/busybox", "sleep", "1000")
	before := ctr("task", "ls")
	e.Stop()
	e.Start()
	e.Kill()
	e.Start()
	if after := ctr("task", "ls"); after != before || !strings.Contains(after, "RUNNING") {
		t.Errorf("tasks before:\n%s\nand after:\n%s", before, after)
	}
	if got := ctr("task", "exec", "--exec-id=a", "one", "/bin/busybox", "echo", "hello"); got != "hello\n" {
		t.Errorf("exec printed %q", got)
	}
}
