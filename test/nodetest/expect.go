package nodetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
)

// Patience bounds how long a test waits for what is about to happen. It is far more than
// a machine needs that is ten times slower than usual.
const Patience = 3 * time.Minute

// Await waits until a condition holds.
func (n *Node) Await(what string, holds func() bool) {
	n.T.Helper()
	for end := time.Now().Add(Patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			n.T.Fatalf("still waiting: %s", what)
		}
	}
}

// KilledAt runs kollet-faults, which kills itself right after a record of the journal,
// and returns whether it did.
func (n *Node) KilledAt(record int, args ...string) (Outcome, bool) {
	n.T.Helper()
	faulty := *n // a copy, so that only this command is killed
	faulty.Program = Program(n.T, "kollet-faults")
	faulty.Env = append(slices.Clone(faulty.Env), fmt.Sprintf("KOLLET_KILL_AT_RECORD=%d", record))
	var out strings.Builder
	cmd := faulty.Command(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return Outcome{Code: cmd.ProcessState.ExitCode(), Stderr: out.String()}, status.Signaled() && status.Signal() == syscall.SIGKILL
}

// Same requires that a service is still the same process in the same container.
func Same(t testing.TB, before, after agent.ServiceStatus) {
	t.Helper()
	if before.Container != after.Container || before.PID != after.PID || before.Since != after.Since {
		t.Fatalf("%s was replaced or restarted: %+v, now %+v", before.Name, before, after)
	}
}

// Contains requires each of the words in a text.
func Contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Fatalf("%q is missing in:\n%s", word, text)
		}
	}
}

// Run runs a command that has to succeed, and returns what it prints.
func Run(t testing.TB, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	return string(out)
}

// Check requires that there was no error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Processes returns the ids of the processes with these first arguments.
func Processes(args ...string) []string {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var found []string
	for _, line := range lines {
		data, err := os.ReadFile(line)
		if err == nil && strings.HasPrefix(string(data), strings.Join(args, "\x00")+"\x00") {
			found = append(found, filepath.Base(filepath.Dir(line)))
		}
	}
	return found
}
