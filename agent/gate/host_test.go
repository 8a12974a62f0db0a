package gate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func made(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gates", "nova-compute")
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// process is a container's first process, which ends when it is closed.
type process chan struct{}

func (p process) Exited(within time.Duration) (bool, error) {
	select {
	case <-p:
		return true, nil
	case <-time.After(within):
		select { // both may have been ready
		case <-p:
			return true, nil
		default:
			return false, nil
		}
	}
}

func TestMakeKeepsOthersOut(t *testing.T) {
	dir := made(t)
	for path, want := range map[string]os.FileMode{
		dir:                          os.ModeDir | 0o700,
		filepath.Join(dir, FileFIFO): os.ModeNamedPipe | 0o600,
	} {
		st, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode() != want {
			t.Errorf("%s has mode %v, want %v", path, st.Mode(), want)
		}
	}
	if IsOpen(dir) {
		t.Error("a new gate is open")
	}
}

func TestMakeAgainForgetsTheLastContainerButStaysOpen(t *testing.T) {
	dir := made(t)
	put(t, dir, FileReady, "")
	put(t, dir, FileFailed, "no such user\n")
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if err := Make(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{FileReady, FileFailed} {
		if exists(filepath.Join(dir, name)) {
			t.Errorf("%s is still there", name)
		}
	}
	if !IsOpen(dir) {
		t.Error("the gate was closed")
	}
}

func TestOpen(t *testing.T) {
	dir := made(t)
	// No error without a reader, and none the second time.
	for range 2 {
		if err := Open(dir); err != nil {
			t.Fatal(err)
		}
	}
	if !IsOpen(dir) {
		t.Error("the gate is closed")
	}
	if err := Sync(dir); err != nil {
		t.Error(err)
	}

	reader, err := unix.Open(filepath.Join(dir, FileFIFO), unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(reader, make([]byte, 8)); n != 1 {
		t.Errorf("read %d bytes (%v) from the FIFO, want 1", n, err)
	}
	// A full FIFO must not block the caller.
	for {
		if _, err := unix.Write(reader, make([]byte, 4096)); err != nil {
			break
		}
	}
	if err := Open(dir); err != nil {
		t.Error(err)
	}
}

func TestOpenWithoutAGate(t *testing.T) {
	if err := Open(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("no error")
	}
}

func TestWait(t *testing.T) {
	running, gone := make(process), make(process)
	close(gone)

	for _, tc := range []struct {
		name  string
		files map[string]string
		first process
		want  string // part of the error; empty: none
	}{
		{"ready", map[string]string{FileReady: ""}, running, ""},
		{"open already", map[string]string{FileOpen: ""}, running, ""},
		{"failed and still there", map[string]string{FileFailed: "no user \"nova\"\n"}, running, `no user "nova"`},
		{"failed and gone", map[string]string{FileFailed: "no user \"nova\"\n"}, gone, `no user "nova"`},
		{"gone without a reason", nil, gone, "exited before it was ready"},
		{"gone after it was ready", map[string]string{FileReady: ""}, gone, "exited before it was ready"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := made(t)
			for name, content := range tc.files {
				put(t, dir, name, content)
			}
			err := Wait(t.Context(), dir, tc.first)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestWaitSeesWhatHappensLater(t *testing.T) {
	for _, tc := range []struct {
		name string
		act  func(t *testing.T, dir string, first process, cancel func())
		want error
	}{
		{"ready", func(t *testing.T, dir string, _ process, _ func()) { put(t, dir, FileReady, "") }, nil},
		{"killed", func(_ *testing.T, _ string, p process, _ func()) { close(p) }, ErrExited},
		{"cancelled", func(_ *testing.T, _ string, _ process, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, first := made(t), make(process)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error)
			go func() { done <- Wait(ctx, dir, first) }()
			select {
			case err := <-done:
				t.Fatalf("returned %v before anything happened", err)
			default:
			}
			tc.act(t, dir, first, cancel)
			if err := <-done; !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}
