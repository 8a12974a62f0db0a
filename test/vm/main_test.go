package vm

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// The virtual machines are killed with the test machine, however the test ends.
func TestMain(m *testing.M) { machine.Main(m) }

// built returns a path below the build directory that make fills: KOLLET_BUILD, or
// build in the checkout.
func built(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("KOLLET_BUILD")
	if dir == "" {
		dir = "../../build"
	}
	return existing(t, filepath.Join(dir, path))
}

// program returns the path of a program that make build has built.
func program(t testing.TB, name string) string {
	t.Helper()
	return existing(t, filepath.Join("../../bin", name))
}

func existing(t testing.TB, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(full)
	}
	if err != nil {
		t.Fatalf("%v: build it with make node-image guest images extra-images", err)
	}
	return full
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
