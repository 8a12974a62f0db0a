// Package needs states what a test needs of the machine that it runs on. A test
// that needs daemons uses test/machine, which needs root too.
package needs

import (
	"os"
	"testing"
)

// Root skips a test that does what only root may do, when it runs as another
// user: make check needs no root, and make test runs everything as root.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root; make test runs it")
	}
}
