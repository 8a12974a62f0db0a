package bench

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/test/machine"
)

// engine is a container engine that a node can have.
type engine struct {
	name    string // as in the node file
	address string // for --engine
	connect func(program, root string) (containers.Engine, error)

	// For the ways that talk to it without kollet: one of both is set.
	docker     *machine.Docker
	containerd *machine.Containerd
	namespace  string // of containerd
}

func onDocker(d *machine.Docker) engine {
	return engine{
		name: "docker", address: d.Socket, docker: d,
		connect: func(string, string) (containers.Engine, error) { return docker.New(d.Socket) },
	}
}

// onContainerd uses a namespace that is named as the cgroup of the benchmark's
// machine, so that containers' cgroups are below that.
func onContainerd(c *machine.Containerd) engine {
	namespace := strings.Trim(machine.CgroupParent(), "/")
	address := c.Address + "?namespace=" + namespace
	return engine{
		name: "containerd", address: address, containerd: c, namespace: namespace,
		connect: func(program, root string) (containers.Engine, error) {
			return containerd.New(containerd.Config{Address: address, Root: filepath.Join(root, node.StateDir, "containerd"), Logger: program})
		},
	}
}

// onBoth measures the same on each engine, with the runtime that they have on a
// host without restrictions: tiny services need no privileges.
func onBoth(b *testing.B, measure func(*testing.B, engine)) {
	b.Run("docker", func(b *testing.B) {
		measure(b, onDocker(machine.Dockerd(b, machine.DockerArgs("--default-runtime=runc"))))
	})
	b.Run("containerd", func(b *testing.B) {
		measure(b, onContainerd(machine.NewContainerd(b)))
	})
}

// version is that of the engine, for reports, as in "Docker 20.10.24".
func (n *testNode) version() string {
	n.b.Helper()
	info, err := n.engine.Info(context.Background())
	check(n.b, err)
	version, _, _ := strings.Cut(strings.NewReplacer("~", "+").Replace(info.Version), "+")
	return n.on.name + " " + version
}
