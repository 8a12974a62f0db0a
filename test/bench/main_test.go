package bench

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

// buildDir is what make fills: KOLLET_BUILD, else the checkout's.
func buildDir() string {
	if dir := os.Getenv("KOLLET_BUILD"); dir != "" {
		return dir
	}
	return "../../build"
}

// program is a binary that make builds.
func program(b *testing.B, name string) string {
	b.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		b.Fatalf("%v: run make build", err)
	}
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
