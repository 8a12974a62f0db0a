package health

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

func TestRestarting(t *testing.T) {
	now := time.Unix(10_000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		container containers.Container
		want      string
	}{
		"never exited":          {containers.Container{State: containers.StateRunning, Started: ago(time.Second)}, ""},
		"exited long ago":       {containers.Container{State: containers.StateRunning, Started: ago(5 * time.Minute), Restarts: 3}, ""},
		"exited recently":       {containers.Container{State: containers.StateRunning, Started: ago(299 * time.Second), Restarts: 1}, "restarting (1 restart, the last one 4m59s ago)"},
		"between two runs":      {containers.Container{State: containers.StateRestarting, Started: ago(8 * time.Second), Finished: ago(7400 * time.Millisecond), Restarts: 7, ExitCode: 3}, "restarting (7 restarts, last exit status 3, 7s ago)"},
		"before the first time": {containers.Container{State: containers.StateRestarting, Finished: now, ExitCode: 1}, "restarting (0 restarts, last exit status 1, 0s ago)"},
		"being started":         {containers.Container{State: containers.StateRestarting, Restarts: 2}, "restarting (2 restarts)"},
		"another clock":         {containers.Container{State: containers.StateRunning, Started: now.Add(time.Hour), Restarts: 2}, "restarting (2 restarts, the last one 0s ago)"},
		"not started again":     {containers.Container{State: containers.StateExited, Finished: now, Restarts: 2, ExitCode: 1}, ""},
	} {
		got := ""
		h := host.Host{Proc: t.TempDir(), Now: func() time.Time { return now }}
		if err := Restarting(c.container, h); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The clock was set since a container was started: only its process knows for how long it
// has run.
func TestRestartingAfterClockWasSet(t *testing.T) {
	proc := t.TempDir()
	const uptime, restarted = 1_000_000, 40 * time.Minute
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(proc, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Unix(1_800_000_000, 0)
	for name, c := range map[string]struct {
		ran     time.Duration
		healthy bool
	}{"long ago": {restarted, true}, "a minute ago": {time.Minute, false}} {
		write("uptime", fmt.Sprintf("%d.00 1.00\n", uptime))
		write("7/stat", fmt.Sprintf("7 (tiny) S 1%s %d 0\n", strings.Repeat(" 0", 17), (uptime-int(c.ran.Seconds()))*100))
		for _, step := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, 400 * 24 * time.Hour} {
			now := started.Add(c.ran + step)
			h := host.Host{Proc: proc, Now: func() time.Time { return now }}
			err := Restarting(containers.Container{PID: 7, State: containers.StateRunning, Started: started, Restarts: 2}, h)
			if (err == nil) != c.healthy {
				t.Errorf("restarted %s, clock set by %v: %v", name, step, err)
			}
			if ran := RanFor(containers.Container{PID: 7, Started: started}, h); ran != c.ran {
				t.Errorf("restarted %s, clock set by %v: ran for %v", name, step, ran)
			}
		}
	}
}
