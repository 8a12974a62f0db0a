//go:build podman

package docker_test

import (
	"os/exec"
	"testing"

	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/test/machine"
)

// TestPodman runs the suite on Podman's service, which has Docker's API:
// `make test-podman`. docs/engines.md describes the result.
func TestPodman(t *testing.T) {
	registry := machine.NewRegistry(t)
	daemon := machine.NewPodman(t, registry)
	engine := connect(t, daemon.Socket)
	_, err := engine.Info(t.Context())
	wantError(t, err, "podman", daemon.Socket, "does not support", "Docker or containerd")
	docker.AllowPodman(engine)
	conformance.Run(t, conformance.Subject{
		Engine:   engine,
		Registry: conformance.Registry{Addr: registry.Addr, Stop: registry.Stop, Start: registry.Start},
		Restart:  func() { daemon.Stop(); daemon.Start() },
		Crash:    func() { daemon.Kill(); daemon.Start() },
		Pause:    func(id string) *exec.Cmd { return exec.Command("podman", "--url", daemon.Socket, "pause", id) },
	})
}
