package operations

import (
	"bytes"
	"errors"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
)

// run is an upgrade in the background.
type run struct {
	cmd  *exec.Cmd
	mu   sync.Mutex
	said bytes.Buffer
	done chan error
}

func (r *run) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.Write(p)
}

func (r *run) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.said.String()
}

func (n *cloudNode) begin(args ...string) *run {
	n.T.Helper()
	r := &run{cmd: n.Command(args...), done: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = r, r
	check(n.T, r.cmd.Start())
	go func() { r.done <- r.cmd.Wait() }()
	return r
}

// await waits until the run says a text.
func (r *run) await(t testing.TB, text string) {
	t.Helper()
	for deadline := time.Now().Add(cloud.Patience); !strings.Contains(r.text(), text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not say %q:\n%s", text, r.text())
		}
	}
}

func (r *run) ends(t testing.TB, status int) {
	t.Helper()
	select {
	case err := <-r.done:
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) || r.cmd.ProcessState.ExitCode() != status {
			t.Fatalf("%v, want exit status %d:\n%s", err, status, r.text())
		}
	case <-time.After(cloud.Patience):
		t.Fatalf("it does not end:\n%s", r.text())
	}
}
