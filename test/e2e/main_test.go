// Package e2e contains the end-to-end tests: the kollet program manages services on
// real engines, with a registry, libvirt, QEMU guests, nova-compute and RabbitMQ.
package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

// built returns a path below the build directory that make fills: KOLLET_BUILD, or
// build in the checkout.
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
		t.Fatalf("%v: build it with make guest images", err)
	}
	return full
}
