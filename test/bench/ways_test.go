package bench

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/machine"
)

// way is one way of replacing a service that runs by the next version of it.
type way interface {
	name() string
	address() string
	replace(tag string)
}

// gated is kollet's: an upgrade to a node file that names another image.
type gated struct {
	*node
	registry *machine.Registry
	gaps     []journal.Gap
}

func (g *gated) name() string    { return "gated upgrade" }
func (g *gated) address() string { return "127.0.0.1:7001" }

func (g *gated) replace(tag string) {
	g.configure(tag)
	r := g.change(string(journal.Committed), "upgrade")
	g.gaps = append(g.gaps, r.Gaps["tiny"])
}

func (g *gated) configure(tag string) {
	g.write(agent.DefaultNodeFile, fmt.Sprintf(`profile: none
keep: 1
services:
  tiny:
    image: %s/%s:%s
    command: [serve, %q]
    pid: host
    stop_grace: 5s
    health: [{tcp: %q, within: 5s, stable: 200ms, every: 50ms}]
`, g.registry.Addr, repository, tag, g.address(), g.address()))
}

// byHand is what deployment tools do, by Docker's API: their own start-up does
// not count against them.
type byHand struct {
	b        *testing.B
	client   *client.Client
	registry *machine.Registry
	port     int
	early    bool // the new container is created before the old one is stopped
	running  string
	count    int
}

func (h *byHand) name() string {
	if h.early {
		return "create, stop, start"
	}
	return "stop, remove, create, start"
}

func (h *byHand) address() string { return fmt.Sprintf("127.0.0.1:%d", h.port) }

func (h *byHand) replace(tag string) {
	h.b.Helper()
	ctx := context.Background()
	old, grace := h.running, 5
	if h.early {
		h.running = h.create(tag)
	}
	check(h.b, h.client.ContainerStop(ctx, old, container.StopOptions{Timeout: &grace}))
	if !h.early {
		check(h.b, h.client.ContainerRemove(ctx, old, container.RemoveOptions{}))
		h.running = h.create(tag)
	}
	h.start()
	if h.early {
		check(h.b, h.client.ContainerRemove(ctx, old, container.RemoveOptions{}))
	}
}

func (h *byHand) create(tag string) (id string) {
	h.b.Helper()
	h.count++
	made, err := h.client.ContainerCreate(context.Background(),
		&container.Config{Image: h.registry.Addr + "/" + repository + ":" + tag, Cmd: []string{"serve", h.address()}},
		&container.HostConfig{NetworkMode: "host", PidMode: "host"}, nil, nil, fmt.Sprintf("tiny-%d-%d", h.port, h.count))
	check(h.b, err)
	return made.ID
}

func (h *byHand) start() {
	h.b.Helper()
	check(h.b, h.client.ContainerStart(context.Background(), h.running, container.StartOptions{}))
}

func (h *byHand) remove() {
	_ = h.client.ContainerRemove(context.Background(), h.running, container.RemoveOptions{Force: true})
}

// bare is the floor: no container at all. A parent tells the process to end,
// waits for it and starts it again.
type bare struct {
	b       *testing.B
	program map[string]string // by tag: files of their own, as images have
	process *exec.Cmd
}

func (p *bare) name() string    { return "bare process" }
func (p *bare) address() string { return "127.0.0.1:7004" }

func (p *bare) replace(tag string) {
	p.b.Helper()
	check(p.b, p.process.Process.Signal(syscall.SIGTERM))
	_ = p.process.Wait() // how it ends is its own affair
	p.start(tag)
}

func (p *bare) start(tag string) {
	p.b.Helper()
	p.process = exec.Command(p.program[tag], "serve", p.address())
	check(p.b, p.process.Start())
}

func (p *bare) stop() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
}
