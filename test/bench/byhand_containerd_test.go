package bench

import (
	"context"
	"fmt"
	"syscall"
	"testing"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/kollet/kollet/test/machine"
)

// containerdByHand is the same by containerd's client, which knows one step
// more: a task, the runtime's container, is created before its program starts.
type containerdByHand struct {
	b        *testing.B
	client   *client.Client
	registry *machine.Registry
	way      string
	running  replica
	count    int
}

// replica is a container and its task; ended tells when that is over.
type replica struct {
	container client.Container
	task      client.Task // nil until it was made
	ended     <-chan client.ExitStatus
}

func startContainerdByHand(b *testing.B, on engine, registry *machine.Registry, way string) *containerdByHand {
	b.Helper()
	c, err := client.New(on.containerd.Address, client.WithDefaultNamespace(on.namespace))
	check(b, err)
	h := &containerdByHand{b: b, client: c, registry: registry, way: way}
	b.Cleanup(func() {
		_, _ = h.running.task.Delete(context.Background(), client.WithProcessKill)
		_ = h.running.container.Delete(context.Background(), client.WithSnapshotCleanup)
		c.Close()
	})
	h.running = h.create(oldTag)
	h.makeTask(&h.running)
	h.start()
	return h
}

func (h *containerdByHand) name() string    { return h.way }
func (h *containerdByHand) address() string { return addressOf(h.way) }

func (h *containerdByHand) replace(tag string) {
	h.b.Helper()
	old := h.running
	if h.way != removeFirst {
		h.running = h.create(tag)
	}
	if h.way == taskFirst {
		h.makeTask(&h.running)
	}
	check(h.b, old.task.Kill(context.Background(), syscall.SIGTERM))
	<-old.ended
	if h.way == removeFirst {
		h.remove(old)
		h.running = h.create(tag)
	}
	if h.way != taskFirst {
		h.makeTask(&h.running)
	}
	h.start()
	if h.way != removeFirst {
		h.remove(old)
	}
}

func (h *containerdByHand) remove(r replica) {
	h.b.Helper()
	_, err := r.task.Delete(context.Background())
	check(h.b, err)
	check(h.b, r.container.Delete(context.Background(), client.WithSnapshotCleanup))
}

func (h *containerdByHand) create(tag string) replica {
	h.b.Helper()
	ctx := context.Background()
	image, err := h.client.GetImage(ctx, imageOf(h.registry, tag))
	check(h.b, err)
	h.count++
	id := fmt.Sprintf("tiny-%d-%d", ports[h.way], h.count)
	c, err := h.client.NewContainer(ctx, id, client.WithNewSnapshot(id, image), client.WithNewSpec(
		oci.WithImageConfigArgs(image, []string{"serve", h.address()}),
		oci.WithHostNamespace(specs.NetworkNamespace), oci.WithHostNamespace(specs.PIDNamespace),
	))
	check(h.b, err)
	return replica{container: c}
}

func (h *containerdByHand) makeTask(r *replica) {
	h.b.Helper()
	var err error
	r.task, err = r.container.NewTask(context.Background(), cio.NullIO)
	check(h.b, err)
	r.ended, err = r.task.Wait(context.Background())
	check(h.b, err)
}

func (h *containerdByHand) start() {
	h.b.Helper()
	check(h.b, h.running.task.Start(context.Background()))
}
