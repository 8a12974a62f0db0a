package docker_test

import (
	"testing"

	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

func TestConformance(t *testing.T) {
	daemon := machine.Dockerd(t)
	registry := machine.NewRegistry(t)
	engine, err := docker.New(daemon.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	conformance.Run(t, conformance.Subject{
		Engine:   engine,
		Registry: conformance.Registry{Addr: registry.Addr, Stop: registry.Stop, Start: registry.Start},
		Restart:  func() { daemon.Stop(); daemon.Start() },
	})
}
