package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// Other tools, as their users run them. The time that the tools take to start is
// not part of a gap: the service still runs.
const (
	dockerCompose = "docker-compose up"
	podmanReplace = "podman run --replace"
)

// compose is docker-compose, on the same engine.
type compose struct {
	b        *testing.B
	on       engine
	registry *machine.Registry
	file     string
}

func startCompose(b *testing.B, on engine, registry *machine.Registry) *compose {
	b.Helper()
	c := &compose{b: b, on: on, registry: registry, file: filepath.Join(machine.Dir(b, "compose"), "docker-compose.yml")}
	b.Cleanup(func() { c.run("down", "--timeout", "0") })
	c.replace(oldTag)
	return c
}

func (c *compose) name() string    { return dockerCompose }
func (c *compose) address() string { return addressOf(dockerCompose) }

func (c *compose) replace(tag string) {
	c.b.Helper()
	check(c.b, os.WriteFile(c.file, fmt.Appendf(nil, `version: "2.4"
services:
  tiny:
    image: %s
    command: [serve, %q]
    network_mode: host
    pid: host
    stop_grace_period: 5s
`, imageOf(c.registry, tag), c.address()), 0o644))
	c.run("up", "--detach")
}

func (c *compose) run(args ...string) {
	c.b.Helper()
	cmd := exec.Command("docker-compose", append([]string{"--file", c.file}, args...)...)
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+c.on.docker.Socket)
	runTool(c.b, cmd)
}

// podman has no engine: its storage is a directory of its own.
type podman struct {
	b        *testing.B
	registry *machine.Registry
	dir      string
}

func startPodman(b *testing.B, registry *machine.Registry) *podman {
	b.Helper()
	p := &podman{b: b, registry: registry, dir: machine.Dir(b, "podman")}
	for _, tag := range []string{oldTag, newTag} {
		p.run("pull", "--quiet", "--tls-verify=false", imageOf(registry, tag))
	}
	b.Cleanup(func() { p.run("rm", "--all", "--force", "--time", "0") })
	p.replace(oldTag)
	return p
}

func (p *podman) name() string    { return podmanReplace }
func (p *podman) address() string { return addressOf(podmanReplace) }

func (p *podman) replace(tag string) {
	p.b.Helper()
	p.run("run", "--replace", "--detach", "--name", "tiny", "--cgroup-parent", machine.CgroupParent(),
		"--network", "host", "--pid", "host", "--stop-timeout", "5", imageOf(p.registry, tag), "serve", p.address())
}

func (p *podman) run(args ...string) {
	p.b.Helper()
	runTool(p.b, exec.Command("podman", append([]string{
		"--root", filepath.Join(p.dir, "data"), "--runroot", "/run/podman/run", "--tmpdir", "/run/podman/tmp", // it wants short ones
		"--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", machine.Runtime(p.b),
	}, args...)...))
}

// runTool runs a command of another tool.
func runTool(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		b.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out.String())
	}
}
