// Package e2e contains the end-to-end tests with small services: the kollet program manages
// them on real engines, with a registry. Those of a whole compute node are in test/computenode.
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
