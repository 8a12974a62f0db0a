// Package e2e contains the end-to-end tests: the kollet program manages services on
// real engines, with a registry, libvirt, QEMU guests, nova-compute and RabbitMQ.
package e2e

import (
	"os"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) {
	machine.Enter()
	status := m.Run()
	_ = os.RemoveAll(verifierDir)
	os.Exit(status)
}
