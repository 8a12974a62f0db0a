package health

import (
	"testing"
	"time"

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
		if err := Restarting(c.container, now); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
