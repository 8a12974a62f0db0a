package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/kollet/kollet/test/machine"
)

// dockerByHand does what deployment tools do, through Docker's API: the time that
// such tools take to start is left out.
type dockerByHand struct {
	b        *testing.B
	client   *client.Client
	registry *machine.Registry
	way      string
	running  string
	count    int
}

// startDockerByHand starts the old version of a container that is then replaced
// manually. The engine has its images.
func startDockerByHand(b *testing.B, on engine, registry *machine.Registry, way string) *dockerByHand {
	b.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(on.docker.Socket), client.WithAPIVersionNegotiation())
	check(b, err)
	h := &dockerByHand{b: b, client: c, registry: registry, way: way}
	h.running = h.create(oldTag)
	h.start()
	b.Cleanup(func() {
		_ = c.ContainerRemove(context.Background(), h.running, container.RemoveOptions{Force: true})
		c.Close()
	})
	return h
}

func (h *dockerByHand) name() string    { return h.way }
func (h *dockerByHand) address() string { return addressOf(h.way) }

func (h *dockerByHand) replace(tag string) {
	h.b.Helper()
	ctx := context.Background()
	old, grace := h.running, 5
	if h.way == createFirst {
		h.running = h.create(tag)
	}
	check(h.b, h.client.ContainerStop(ctx, old, container.StopOptions{Timeout: &grace}))
	if h.way == removeFirst {
		check(h.b, h.client.ContainerRemove(ctx, old, container.RemoveOptions{}))
		h.running = h.create(tag)
	}
	h.start()
	if h.way == createFirst {
		check(h.b, h.client.ContainerRemove(ctx, old, container.RemoveOptions{}))
	}
}

func (h *dockerByHand) create(tag string) (id string) {
	h.b.Helper()
	h.count++
	made, err := h.client.ContainerCreate(context.Background(),
		&container.Config{Image: imageOf(h.registry, tag), Cmd: []string{"serve", h.address()}},
		&container.HostConfig{NetworkMode: "host", PidMode: "host"}, nil, nil, fmt.Sprintf("tiny-%d-%d", ports[h.way], h.count))
	check(h.b, err)
	return made.ID
}

func (h *dockerByHand) start() {
	h.b.Helper()
	check(h.b, h.client.ContainerStart(context.Background(), h.running, container.StartOptions{}))
}
