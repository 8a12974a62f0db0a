package host

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWasKilled(t *testing.T) {
	const status = "Name:\ttiny\nState:\t%s\nThreads:\t2\nSigPnd:\t%s\nShdPnd:\t%s\n"
	for name, c := range map[string]struct {
		state, own, shared string
		want               bool
	}{
		"runs":                          {"S (sleeping)", "0000000000000000", "0000000000000000", false},
		"another signal":                {"D (disk sleep)", "0000000000004000", "0000000000004000", false},
		"hangs":                         {"D (disk sleep)", "0000000000000100", "0000000000000000", true},
		"killed as a whole":             {"D (disk sleep)", "0000000000000000", "0000000000004100", true},
		"exited, and nobody reaped it":  {"Z (zombie)", "0000000000000000", "0000000000000100", false},
		"something else than a process": {"", "", "", false},
	} {
		if got := wasKilled(fmt.Sprintf(status, c.state, c.own, c.shared)); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// It is said of no other process, and not of one that exits in its own time: a busy
// machine lets it wait, and the memory of a guest has to be freed.
func TestKilled(t *testing.T) { synctest.Test(t, killed) }

// The first thread of process 7 has exited, and 9 hangs.
func killed(t *testing.T) {
	h := Host{Proc: t.TempDir()}
	writeThread(t, h, "7", "Z (zombie)", "0000000000000000", "2:pids:/")
	writeThread(t, h, "9", "D (disk sleep)", "0000000000000100", "2:pids:/docker/abc")
	if err := h.Killed(7); err == nil || !strings.Contains(err.Error(), "process 7 was killed and has not exited") {
		t.Errorf("got %v", err)
	}
	if err := h.Hanging("other", "abc"); err == nil || !strings.Contains(err.Error(), "process 7 was killed") {
		t.Errorf("in a container: %v", err)
	}
	if err := errors.Join(h.Hanging("other"), h.Hanging()); err != nil {
		t.Errorf("in another one: %v", err)
	}
	if err := h.Killed(8); err != nil {
		t.Errorf("no process: %v", err)
	}
	time.AfterFunc(time.Second, func() { os.RemoveAll(filepath.Join(h.Proc, "7")) })
	if err := h.Killed(7); err != nil {
		t.Errorf("exits: %v", err)
	}
}

// writeThread writes what /proc has of a thread of process 7.
func writeThread(t *testing.T, h Host, thread, state, pending, cgroup string) {
	t.Helper()
	dir := filepath.Join(h.Proc, "7", "task", thread)
	err := errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "cgroup"), []byte(cgroup+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "status"), fmt.Appendf(nil, "State:\t%s\nSigPnd:\t%s\n", state, pending), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

// A process whose first thread has exited runs, as long as nobody kills it.
func TestProcessWithoutFirstThreadWasNotKilled(t *testing.T) {
	h := Host{Proc: t.TempDir()}
	writeThread(t, h, "7", "Z (zombie)", "0000000000000000", "2:pids:/")
	writeThread(t, h, "9", "S (sleeping)", "0000000000000000", "2:pids:/docker/abc")
	if err := errors.Join(h.Killed(7), h.Hangs(7), h.Hanging("abc")); err != nil {
		t.Error(err)
	}
}

func TestEnding(t *testing.T) {
	const none, sigkill = "0000000000000000", "0000000000000100"
	type thread struct{ state, pending string }
	for name, c := range map[string]struct {
		first, other thread
		cgroup       string
		want         bool
	}{
		"runs":                         {thread{"S", none}, thread{"S", none}, "/docker/abc", false},
		"was killed":                   {thread{"D", sigkill}, thread{"D", sigkill}, "/docker/abc", true},
		"without its first thread":     {thread{"Z", none}, thread{"S", none}, "/docker/abc", true},
		"of another container":         {thread{"Z", none}, thread{"S", none}, "/docker/abd", false},
		"exited, and nobody reaped it": {thread{"Z", sigkill}, thread{"Z", none}, "/docker/abc", false},
	} {
		process := exec.Command("sleep", "60") // it can be opened
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		pid := process.Process.Pid
		h := Host{Proc: t.TempDir()}
		writeThread(t, h, "7", c.first.state, c.first.pending, "2:pids:"+c.cgroup)
		writeThread(t, h, "9", c.other.state, c.other.pending, "2:pids:"+c.cgroup)
		stat := fmt.Appendf(nil, "7 (tiny) %s%s", c.first.state, strings.Repeat(" 1", 30))
		err := errors.Join(os.WriteFile(filepath.Join(h.Proc, "7", "stat"), stat, 0o600), os.Rename(filepath.Join(h.Proc, "7"), filepath.Join(h.Proc, number(pid))))
		if err != nil {
			t.Fatal(err)
		}
		ending, err := h.Ending("abc")
		if err != nil || (len(ending) == 1) != c.want {
			t.Errorf("%s: %v, %v, want %t", name, ending, err, c.want)
		}
		for _, p := range ending {
			p.Close()
		}
		_ = process.Process.Kill()
		_ = process.Wait()
	}
}
