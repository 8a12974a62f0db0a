package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Processes that look like services: a shell that waits for a line.
func TestServicesThatRunTwiceAreFound(t *testing.T) {
	shell, err := os.ReadFile("/bin/sh")
	check(t, err)
	serve := func(program string, port int) int {
		path := filepath.Join(t.TempDir(), program)
		check(t, os.WriteFile(path, shell, 0o700))
		cmd := exec.Command(path, "-c", "read line", "", "serve", fmt.Sprintf("127.0.0.1:%d", port), "/etc/word")
		_, err := cmd.StdinPipe()
		check(t, err)
		check(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for line := []byte{}; len(line) == 0; { // it has its name before it has its arguments
			line, err = os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
			check(t, err)
		}
		return cmd.Process.Pid
	}
	v := &victim{port: 7100}
	alpha := serve("tiny", 7100)
	serve("kollet-start", 7100) // at its gate
	serve("tiny", 7102)         // of another node
	if got := v.serving(); len(got) != 1 || !slices.Equal(got["alpha"], []int{alpha}) {
		t.Errorf("got %v, want alpha in process %d", got, alpha)
	}
	beta := []int{serve("tiny", 7101), serve("tiny", 7101)}
	got := v.serving()["beta"]
	slices.Sort(got)
	slices.Sort(beta)
	time.Sleep(2 * watchPeriod) // a watch may look at what is that old
	if err := v.watch()(); !slices.Equal(got, beta) || err == nil || !strings.HasPrefix(err.Error(), "beta ran twice at one time") {
		t.Errorf("got %v and %v, want that beta runs twice: %v", got, err, beta)
	}
}
