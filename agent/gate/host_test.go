package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
		{"opened by another", map[string]string{FileOpen: ""}, running, "open exists, and kollet did not create it"},
		{"ready, and opened by another", map[string]string{FileReady: "", FileOpen: ""}, running, "the container changed its gate"},
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

// A container can put anything into its gate directory, and changes nothing outside.
func TestAContainerThatChangesItsGate(t *testing.T) {
	const secret = "only root reads this"
	link := func(name string) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, outside string) {
			os.Remove(filepath.Join(dir, name))
			if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	pipe := func(name string) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, _ string) {
			os.Remove(filepath.Join(dir, name))
			if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	directory := func(name string) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, _ string) {
			os.Remove(filepath.Join(dir, name))
			if err := os.MkdirAll(filepath.Join(dir, name, "more"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
	}
	gone := func(name string) func(t *testing.T, dir, outside string) {
		return func(t *testing.T, dir, _ string) { os.Remove(filepath.Join(dir, name)) }
	}
	for _, tc := range []struct {
		name   string
		change func(t *testing.T, dir, outside string)
		calls  string // that notice it: Wait, Open, Sync
	}{
		{"the FIFO is a link", link(FileFIFO), "WO"},
		{"the FIFO is a directory", directory(FileFIFO), "WO"},
		{"the FIFO is gone", gone(FileFIFO), "WO"},
		{"open is a link", link(FileOpen), "WOS"},
		{"open is a pipe", pipe(FileOpen), "WOS"},
		{"open is a directory", directory(FileOpen), "WOS"},
		{"failed is a link", link(FileFailed), "W"},
		{"failed is a pipe", pipe(FileFailed), "W"},
		{"failed is a directory", directory(FileFailed), "W"},
		{"ready is a link", link(FileReady), "W"},
	} {
		for _, exists := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, its target exists: %v", tc.name, exists), func(t *testing.T) {
				outside := filepath.Join(t.TempDir(), "outside")
				if exists {
					if err := os.WriteFile(outside, []byte(secret), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				dir := made(t)
				put(t, dir, FileReady, "")
				tc.change(t, dir, outside)
				for _, call := range []struct {
					letter string
					err    error
				}{
					{"W", Wait(t.Context(), dir, make(process))},
					{"O", Open(dir)},
					{"S", Sync(dir)},
				} {
					noticed := strings.Contains(tc.calls, call.letter)
					if noticed && (call.err == nil || !strings.Contains(call.err.Error(), "changed its gate")) || !noticed && call.err != nil {
						t.Errorf("%s: got error %v", call.letter, call.err)
					}
					if call.err != nil && strings.Contains(call.err.Error(), secret) {
						t.Errorf("%s: the file is shown: %v", call.letter, call.err)
					}
				}
				if data, err := os.ReadFile(outside); exists && string(data) != secret || !exists && err == nil {
					t.Errorf("outside there is now %q (%v)", data, err)
				}
			})
		}
	}
}

func TestAReasonWithoutEnd(t *testing.T) {
	dir := made(t)
	put(t, dir, FileFailed, "\x1b]0;done\a\nnova: "+strings.Repeat("x", 1<<20))
	err := Wait(t.Context(), dir, make(process))
	if err == nil || len(err.Error()) > 2000 || !strings.HasPrefix(err.Error(), "�]0;done� nova: xxx") {
		t.Errorf("got error of %d bytes: %.60q", len(err.Error()), err)
	}
}

// A replaced container waits at its gate when it is started again, whatever it has made
// of its gate.
func TestClose(t *testing.T) {
	dir := made(t)
	outside := t.TempDir()
	put(t, outside, "kept", "")
	for name, open := range map[string]func(path string) error{
		"open":      func(string) error { return Open(dir) },
		"closed":    func(string) error { return nil },
		"link":      func(path string) error { return os.Symlink(outside, path) },
		"directory": func(path string) error { return os.MkdirAll(filepath.Join(path, "deep"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := open(filepath.Join(dir, FileOpen)); err != nil {
				t.Fatal(err)
			}
			if err := Close(dir); err != nil || IsOpen(dir) {
				t.Errorf("%v, open: %t", err, IsOpen(dir))
			}
		})
	}
	if !exists(filepath.Join(outside, "kept")) {
		t.Error("a file behind a link was removed")
	}
	if err := Close(filepath.Join(dir, "absent")); err != nil {
		t.Error(err)
	}
}

// A container may fill what it put in place of open faster than it can be emptied. The gate
// is closed nevertheless, and what was there is removed when the container has stopped.
func TestCloseDespiteAFlood(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gate")
	open := filepath.Join(dir, FileOpen)
	if err := os.MkdirAll(filepath.Join(open, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	container, err := os.OpenRoot(open)
	if err != nil {
		t.Fatal(err)
	}
	defer container.Close()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
				_ = container.Mkdir(strconv.Itoa(n%3000), 0o700)
			}
		}
	}()
	ended := make(chan error, 1)
	go func() { ended <- Close(dir) }()
	select {
	case err := <-ended:
		if err != nil || IsOpen(dir) {
			t.Errorf("open: %v, %v", IsOpen(dir), err)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
	close(stop)
	<-stopped
	if err := Clean(t.Context(), dir); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left beside the gate: %v, %v", left, err)
	}
}

// A gate of which something was lost is open again. An open one is left alone.
func TestRestore(t *testing.T) {
	for name, lose := range map[string]func(dir string) error{
		"nothing":   func(string) error { return nil },
		"open":      func(dir string) error { return os.Remove(filepath.Join(dir, FileOpen)) },
		"all of it": os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "gate")
			if err := errors.Join(Make(dir), Open(dir), lose(dir)); err != nil {
				t.Fatal(err)
			}
			if err := Restore(dir); err != nil || !IsOpen(dir) {
				t.Errorf("open: %v, %v", IsOpen(dir), err)
			}
		})
	}
}

// Not every error about a gate is its container's doing.
func TestNotTheContainer(t *testing.T) {
	dir := made(t)
	few := func(limit uint64) (before unix.Rlimit) {
		if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: before.Max}); err != nil {
			t.Fatal(err)
		}
		return before
	}
	if err := Open(dir); err != nil {
		t.Fatal(err)
	}
	before := few(0)
	opened, synced := Open(dir), Sync(dir)
	few(before.Cur)
	gone := filepath.Join(t.TempDir(), "none")
	for name, err := range map[string]error{"open": opened, "sync": synced, "open what is gone": Open(gone), "sync what is gone": Sync(gone)} {
		if err == nil || strings.Contains(err.Error(), "do not trust") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if !errors.Is(opened, unix.EMFILE) || !errors.Is(synced, unix.EMFILE) {
		t.Errorf("got %v, %v", opened, synced)
	}
}
