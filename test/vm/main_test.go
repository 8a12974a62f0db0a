package vm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// QEMU ends with the machine that it runs in, whatever becomes of the test.
func TestMain(m *testing.M) { machine.Main(m) }

// built is a path below the build directory that make fills: KOLLET_BUILD, else
// the checkout's.
func built(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("KOLLET_BUILD")
	if dir == "" {
		dir = "../../build"
	}
	return there(t, filepath.Join(dir, path))
}

// program is a binary that make builds.
func program(t testing.TB, name string) string {
	t.Helper()
	return there(t, filepath.Join("../../bin", name))
}

func there(t testing.TB, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(full)
	}
	if err != nil {
		t.Fatalf("%v: run make test-vm, which builds it", err)
	}
	return full
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
