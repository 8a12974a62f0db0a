package host_test

import (
	"io"
	"os"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// waits is set for a copy of the test program that only waits, with several
// threads, until its input ends.
const waits = "KOLLET_TEST_WAITS"

func TestMain(m *testing.M) {
	if os.Getenv(waits) != "" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	machine.Main(m)
}
