package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that waits for a FIFO's writer reads its end, if that FIFO is meant.
func TestEndFIFOs(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "passwd")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader := exec.Command("cat", fifo)
	var out strings.Builder
	reader.Stdout = &out
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- reader.Wait() }()
	end := func(path string) []string {
		return Real().EndFIFOs(reader.Process.Pid, func(p string) bool { return p == path })
	}
	for until := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if path, reads := Real().opening(reader.Process.Pid, Real().threads(reader.Process.Pid)[0]); reads && path == fifo {
			break
		}
		if time.Now().After(until) {
			t.Fatal("it does not wait")
		}
	}
	if got := end(fifo + "x"); len(got) > 0 {
		t.Errorf("ended %q", got)
	}
	select {
	case err := <-exited:
		t.Fatalf("it waits no longer: %v", err)
	default:
	}
	if got := end(fifo); !slices.Equal(got, []string{fifo}) {
		t.Errorf("ended %q", got)
		_ = reader.Process.Kill()
	}
	if err := <-exited; err != nil || out.Len() > 0 {
		t.Errorf("%v, read %q", err, out.String())
	}
}

// Nothing else is opened, and nobody is waited for.
func TestEndFIFO(t *testing.T) {
	dir := t.TempDir()
	for name, place := range map[string]func(path string) error{
		"a file":                    func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"a device":                  func(path string) error { return os.Symlink("/dev/null", path) },
		"a link":                    func(path string) error { return os.Symlink("a file", path) },
		"a FIFO that nobody awaits": func(path string) error { return unix.Mkfifo(path, 0o600) },
		"nothing":                   func(string) error { return nil },
	} {
		path := filepath.Join(dir, name)
		if err := place(path); err != nil {
			t.Fatal(err)
		}
		if err := Real().endFIFO(os.Getpid(), path); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
