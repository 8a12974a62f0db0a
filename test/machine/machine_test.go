package machine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

// image puts an image with nothing but busybox into the engine, as name.
func image(t *testing.T, e *machine.Docker, name string) {
	t.Helper()
	dir := t.TempDir()
	script := `mkdir -p bin tmp && cp "$(command -v busybox)" bin/ && for a in $(bin/busybox --list); do test -e bin/$a || ln -s busybox bin/$a; done && tar -cf ../image.tar .`
	cmd := exec.Command("sh", "-ec", "mkdir root && cd root && "+script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make a root file system: %v\n%s", err, out)
	}
	docker(t, e, "import", dir+"/image.tar", name)
}

// docker runs the docker command and returns what it printed.
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

func TestPrivilegedContainer(t *testing.T) {
	e := machine.Dockerd(t)
	image(t, e, "busybox")
	id := docker(t, e, "run", "-d", "--privileged", "--pid=host", "--net=host", "busybox", "sleep", "1000")
	if got := docker(t, e, "exec", "--privileged", id, "echo", "hello"); got != "hello" {
		t.Errorf("exec printed %q", got)
	}
}

func TestRegistry(t *testing.T) {
	e := machine.Dockerd(t)
	r := machine.NewRegistry(t)
	name := r.Addr + "/some/busybox:1"
	image(t, e, name)
	docker(t, e, "push", name)
	docker(t, e, "rmi", name)
	r.Stop()
	r.Start()
	docker(t, e, "pull", name)
}
