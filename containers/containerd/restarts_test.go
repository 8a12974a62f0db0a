package containerd

import (
	"os"
	"path/filepath"
	"testing"
)

// The log writer counts the runs of a boot; Start removes the file.
func TestCountRun(t *testing.T) {
	dir := t.TempDir()
	e := &Engine{root: dir}
	file := filepath.Join(e.dir("c"), restartsFile)
	if err := os.MkdirAll(e.dir("c"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(name string, want int) {
		t.Helper()
		if err := countRun(e.dir("c")); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := e.restartsOf("c"); got != want {
			t.Errorf("%s: %d restarts, want %d", name, got, want)
		}
	}
	if got := e.restartsOf("c"); got != 0 {
		t.Errorf("never ran: %d restarts", got)
	}
	run("first run", 0)
	run("restarted", 1)
	run("restarted again", 2)
	for name, content := range map[string]string{"another boot": "5d9a1b0c-boot 7\n", "damaged": "x", "empty": "", "no number": "boot many"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := e.restartsOf("c"); got != 0 {
			t.Errorf("%s: %d restarts", name, got)
		}
		run(name, 0)
		run(name+", restarted", 1)
	}
	if err := e.forgetRestarts("c"); err != nil {
		t.Fatal(err)
	}
	run("started again", 0)
	if err := e.forgetRestarts("c"); err != nil || e.forgetRestarts("c") != nil {
		t.Errorf("twice: %v", err)
	}
}
