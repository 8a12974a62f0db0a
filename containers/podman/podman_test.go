//go:build podman

package podman_test

import (
	"os/exec"
	"testing"

	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

func TestConformance(t *testing.T) {
	registry := machine.NewRegistry(t)
	daemon := machine.NewPodman(t, registry)
	engine := connect(t, daemon.Socket)
	conformance.Run(t, conformance.Subject{
		Engine:   engine,
		Registry: conformance.Registry{Addr: registry.Addr, Stop: registry.Stop, Start: registry.Start},
		Restart:  func() { daemon.Stop(); daemon.Start() },
		Crash:    func() { daemon.Kill(); daemon.Start() },
		Pause:    func(id string) *exec.Cmd { return exec.Command("podman", "--url", daemon.Socket, "pause", id) },

		Layouts:    true,
		HidesSizes: true,
	})
}
