package nodetest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/containers/podman"
	"github.com/kollet/kollet/test/machine"
)

// Engine is a container engine to run a node on.
type Engine struct {
	Name    string // as in the node file
	Address string // for --engine
	Socket  string // as error messages print it
	connect func(program, root string) (containers.Engine, error)
	Kill    func() // the engine alone
	Start   func()

	LosePower func() // ends the engine and its containers

	Volume  func(root, name string) string           // the directory of a node's named volume
	Inspect func(c containers.Container) []*exec.Cmd // commands of the engine that print everything about a container
	Pause   func(id string) []*exec.Cmd              // commands that pause a container and leave it so
	Forget  func(image string) *exec.Cmd             // the engine's command that removes an image, which has an id
	Files   func(root, id string) string             // the directory that is removed with a container
	Docker  func(args ...string) *exec.Cmd           // docker, or what has the same commands; nil if nothing has
}

// OnDocker runs nodes on Docker.
func OnDocker(d *machine.Docker) Engine {
	tool := func(args ...string) *exec.Cmd {
		return exec.Command("docker", append([]string{"-H", d.Socket}, args...)...)
	}
	return Engine{
		Name: "docker", Address: d.Socket, Socket: d.Socket, Kill: d.Kill, LosePower: d.LosePower, Start: d.Start,
		connect: func(string, string) (containers.Engine, error) { return docker.New(d.Socket) },
		Volume:  func(_, name string) string { return filepath.Join(d.Root, "volumes", name, "_data") },
		Inspect: func(c containers.Container) []*exec.Cmd {
			return []*exec.Cmd{tool("inspect", c.ID)}
		},
		Pause:  func(id string) []*exec.Cmd { return []*exec.Cmd{tool("pause", id)} },
		Forget: func(image string) *exec.Cmd { return tool("rmi", "--force", image) },
		Files:  func(_, id string) string { return filepath.Join(d.Root, "containers", id) },
		Docker: tool,
	}
}

// OnContainerd runs nodes on containerd. It uses a namespace with the name of the test machine's cgroup, so that
// the cgroups of containers are below that cgroup.
func OnContainerd(c *machine.Containerd) Engine {
	namespace := strings.Trim(machine.CgroupParent(), "/")
	address := c.Address + "?namespace=" + namespace
	own := func(root string) string { return filepath.Join(root, node.StateDir, "containerd") }
	ctr := func(args ...string) *exec.Cmd {
		return exec.Command("ctr", append([]string{"--address", c.Address, "--namespace", namespace}, args...)...)
	}
	return Engine{
		Name: "containerd", Address: address, Socket: c.Address, Kill: c.Kill, LosePower: c.LosePower, Start: c.Start,
		connect: func(program, root string) (containers.Engine, error) {
			return containerd.New(containerd.Config{Address: address, Root: own(root), Logger: program})
		},
		Volume: func(root, name string) string { return filepath.Join(own(root), "volumes", name) },
		Inspect: func(c containers.Container) []*exec.Cmd {
			return []*exec.Cmd{ctr("containers", "info", c.ID), ctr("tasks", "ps", c.ID)}
		},
		Pause: func(id string) []*exec.Cmd {
			// The restart monitor would start it again within a second (core/runtime/restart).
			return []*exec.Cmd{ctr("containers", "label", id, "containerd.io/restart.status="), ctr("tasks", "pause", id)}
		},
		Forget: func(image string) *exec.Cmd {
			list := fmt.Sprintf(`labels."org.kollet.id"==%s`, image)  // see containers/containerd
			names, _ := ctr("images", "ls", "--quiet", list).Output() // none: ctr says so
			return ctr(append([]string{"images", "rm", "--sync"}, strings.Fields(string(names))...)...)
		},
		Files: func(root, id string) string { return filepath.Join(own(root), "containers", id) },
	}
}

// OnPodman runs nodes on Podman.
func OnPodman(p *machine.Podman) Engine {
	tool := func(args ...string) *exec.Cmd {
		return exec.Command("podman", append([]string{"--url", p.Socket}, args...)...)
	}
	return Engine{
		Name: "podman", Address: p.Socket, Socket: p.Socket, Kill: p.Kill, LosePower: p.LosePower, Start: p.Start,
		connect: func(string, string) (containers.Engine, error) { return podman.New(p.Socket) },
		Volume:  func(_, name string) string { return filepath.Join(p.Root, "volumes", name, "_data") },
		Inspect: func(c containers.Container) []*exec.Cmd { return []*exec.Cmd{tool("inspect", c.ID)} },
		Pause:   func(id string) []*exec.Cmd { return []*exec.Cmd{tool("pause", id)} },
		Forget:  func(image string) *exec.Cmd { return tool("rmi", "--force", image) },
		Files:   func(_, id string) string { return filepath.Join(p.Root, "overlay-containers", id) },
		Docker:  tool,
	}
}
