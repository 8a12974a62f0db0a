package health

import (
	"fmt"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// settled is how long a service has to run after it exited by itself, until its probes
// can call it healthy: they also pass between two crashes. Some services exit only
// after a time limit of a minute, and engines wait for up to a minute before they
// start a service again.
const settled = 5 * time.Minute

// Restarting returns an error if a container exits repeatedly, or did so a short time
// ago, whatever its probes say.
func Restarting(c containers.Container, h host.Host) error {
	restarts := fmt.Sprintf("%d restarts", c.Restarts)
	if c.Restarts == 1 {
		restarts = "1 restart"
	}
	switch {
	case c.State == containers.StateRestarting && !c.Finished.IsZero():
		return fmt.Errorf("restarting (%s, last exit status %d, %v ago)", restarts, c.ExitCode, age(c.Finished, h.Now()).Round(time.Second))
	case c.State == containers.StateRestarting:
		return fmt.Errorf("restarting (%s)", restarts)
	case c.State == containers.StateRunning && c.Restarts > 0 && RanFor(c, h) < settled:
		return fmt.Errorf("restarting (%s, the last one %v ago)", restarts, RanFor(c, h).Round(time.Second))
	}
	return nil
}

// RanFor returns for how long a container that runs has done so. Its process knows: the
// engine's time is that of a clock that may have been set since.
func RanFor(c containers.Container, h host.Host) time.Duration {
	if ran, err := h.Age(c.PID); err == nil {
		return ran
	}
	return age(c.Started, h.Now())
}

func age(then, now time.Time) time.Duration { return max(0, now.Sub(then)) }
