package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// kollet is fetched by nodes at their first boot.
const largest = 30 << 20

func TestBinaryIsSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kollet")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X main.version=v0.0.0-test", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MiB", float64(info.Size())/(1<<20))
	if info.Size() >= largest {
		t.Errorf("kollet has %d bytes, and may have %d", info.Size(), largest)
	}
	out, err := exec.Command(path, "version").Output()
	if err != nil || string(out[:len("kollet v0.0.0-test ")]) != "kollet v0.0.0-test " {
		t.Errorf("the version that the linker was given does not show: %s %v", out, err)
	}
}
