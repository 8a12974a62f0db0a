// Package e2e shows every promise to users on real parts: Docker, a registry,
// libvirt, QEMU guests, nova-compute, RabbitMQ, and kollet as the program that
// users run.
package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

// built is a path below the build directory that make fills: KOLLET_BUILD, else
// the checkout's.
func built(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("KOLLET_BUILD")
	if dir == "" {
		dir = "../../build"
	}
	full, err := filepath.Abs(filepath.Join(dir, path))
	if err == nil {
		_, err = os.Stat(full)
	}
	if err != nil {
		t.Fatalf("%v: run make test, which builds it", err)
	}
	return full
}
