package podman_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/needs"
)

// A Podman that waits for a container's list of users answers again. One that waits for another FIFO
// continues waiting.
func TestWaitForUsers(t *testing.T) {
	needs.Root(t) // as which Podman reads them
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	podman := filepath.Join(dir, "podman")
	program, err := os.ReadFile(cat)
	if err == nil {
		err = os.WriteFile(podman, program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	began := func(file string) (exited chan struct{}) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mkfifo(file, 0o600); err != nil {
			t.Fatal(err)
		}
		reader := exec.Command(podman, file)
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		exited = make(chan struct{})
		go func() {
			_ = reader.Wait()
			close(exited)
		}()
		t.Cleanup(func() {
			_ = reader.Process.Kill()
			<-exited
		})
		return exited
	}
	other := began(filepath.Join(dir, "image.tar"))
	for _, file := range []string{"/etc/passwd", "/overlay/1/merged/run/users"} {
		users := began(filepath.Join(dir, file))
		engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			select { // the container's lock is held until then
			case <-users:
			case <-r.Context().Done():
			}
			fmt.Fprint(w, `[]`)
		}))
		patient, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if all, err := engine.List(patient, nil); err != nil || len(all) > 0 {
			t.Errorf("%s: %v, %v", file, all, err)
		}
	}
	select {
	case <-other:
		t.Error("an image is not read any longer")
	default:
	}
}
