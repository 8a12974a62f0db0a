package agent

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// broken is an engine with an error for every request about an image.
type broken struct {
	*hub
	image, pull error
}

func (b broken) Image(ctx context.Context, ref string) (containers.Image, error) {
	if b.image != nil {
		return containers.Image{}, b.image
	}
	return b.hub.Image(ctx, ref)
}

func (b broken) Pull(context.Context, string, func(containers.Progress)) (containers.Image, error) {
	return containers.Image{}, b.pull
}

// The cause of an engine's error is found behind everything that the agent adds to
// it, also if its text is redacted.
func TestErrorsKeepTheirCause(t *testing.T) {
	t.Setenv("KOLLET_TEST_SECRET", "hunter2hunter2")
	const node = "secrets: {token: {env: KOLLET_TEST_SECRET}}\nservices: {web: {image: web:2}}\n"
	engine := failure.Engine{Name: "docker", Address: "/run/docker.sock", Start: "start it", Space: "it keeps its data"}
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.UnixAddr{Name: "hunter2hunter2"}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, c := range map[string]struct {
		engine broken
		is     []error
	}{
		"registry":  {broken{pull: engine.PullError(t.Context(), "pulling image web:2", "r", refused)}, []error{containers.ErrRegistryUnreachable, syscall.ECONNREFUSED, refused}},
		"disk":      {broken{pull: engine.PullError(t.Context(), "pulling image web:2", "r", errors.New("write hunter2hunter2: no space left on device"))}, []error{syscall.ENOSPC}},
		"engine":    {broken{image: engine.Error("looking up image web:2", failure.Mark(failure.Unreachable, syscall.ECONNRESET))}, []error{containers.ErrUnreachable, syscall.ECONNRESET}},
		"cancelled": {broken{image: engine.Error("looking up image web:2", context.Canceled)}, []error{context.Canceled}},
	} {
		t.Run(name, func(t *testing.T) {
			a, hub := pulling(t, node)
			c.engine.hub = hub
			a.node.Engine = c.engine
			_, err := a.Pull(t.Context(), target.Options{})
			for _, want := range c.is {
				if !errors.Is(err, want) {
					t.Errorf("%v is not %v", err, want)
				}
			}
			if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v has several lines, or contains the secret", err)
			}
		})
	}
}
