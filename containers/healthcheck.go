package containers

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Healthcheck is a command that the engine itself runs in a container, again and again, to show
// whether it succeeds. Nothing follows from it.
type Healthcheck struct {
	Test        []string      `json:"test,omitempty"` // empty: none of the spec's own
	Interval    time.Duration `json:"interval,omitempty"`
	Timeout     time.Duration `json:"timeout,omitempty"`
	StartPeriod time.Duration `json:"start_period,omitempty"` // in which failures are ignored
	Retries     int           `json:"retries,omitempty"`      // failures in a row until it is unhealthy
}

// ErrNoHealthcheck is the error of an engine on which kollet sets no health checks.
var ErrNoHealthcheck = errors.New("a service can have one only on Docker; remove engine_healthcheck, and use healthcheck, which kollet itself runs")

// Defaults sets what is not set to what Docker has as defaults, so that nothing depends on the
// image.
func (h Healthcheck) Defaults() Healthcheck {
	if len(h.Test) == 0 {
		return h
	}
	if h.Interval == 0 {
		h.Interval = 30 * time.Second
	}
	if h.Timeout == 0 {
		h.Timeout = 30 * time.Second
	}
	if h.Retries == 0 {
		h.Retries = 3
	}
	return h
}

// Check returns the first problem, with the name of the field.
func (h Healthcheck) Check() error {
	for _, d := range []struct {
		field string
		value time.Duration
	}{{"interval", h.Interval}, {"timeout", h.Timeout}, {"start_period", h.StartPeriod}} {
		if d.value != 0 && d.value < time.Millisecond { // Docker's limit
			return fmt.Errorf("%s: expected at least 1ms, got %v", d.field, d.value)
		}
	}
	switch {
	case h.Retries < 0:
		return fmt.Errorf("retries: expected 1 or more, got %d", h.Retries)
	case len(h.Test) == 0 && (h.Interval != 0 || h.Timeout != 0 || h.StartPeriod != 0 || h.Retries != 0):
		return errors.New("test: expected a command")
	case len(h.Test) > 0 && (h.Test[0] == "" || slices.Contains([]string{"NONE", "CMD", "CMD-SHELL"}, h.Test[0])):
		return fmt.Errorf("test: expected a program and its arguments, such as [healthcheck_port, nova-compute, \"5672\"], got %q", h.Test)
	}
	return nil
}

// Settings returns what is set.
func (h Healthcheck) Settings() []string {
	if len(h.Test) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("test=%q", h.Test), fmt.Sprintf("interval=%v", h.Interval), fmt.Sprintf("timeout=%v", h.Timeout),
		fmt.Sprintf("start_period=%v", h.StartPeriod), fmt.Sprintf("retries=%d", h.Retries)}
}
