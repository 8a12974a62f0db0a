package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// clocks are how far kollet's clock is off, at one look at it after the other. The engine's
// clock is right.
var clocks = []string{"3h,-3h", "3h", "-3h", "0s,-26h,40h,-5m", "-20000h", "20000h,0s"}

// TestClock sets the clock between and during commands.
func TestClock(t *testing.T) {
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	seed, limit := settings(t)
	chosen := clocks
	scenarios := []scenario{upgrades, rollsBack, recoversBack, recoversTheUpgrade}
	if limit == defaultTime {
		i := rand.New(rand.NewPCG(seed, 0)).IntN(len(scenarios))
		chosen, scenarios = clocks[:1], scenarios[i:i+1]
	}
	for i, engine := range []nodetest.Engine{onDocker(t, 0), onContainerd(t, 0)} {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, engine, registry, 7700+100*i)
			v.Program = nodetest.Program(t, "kollet-faults")
			for _, steps := range chosen {
				v.Env = []string{"KOLLET_CLOCK_STEPS=" + steps}
				if err := v.outOfTime(scenarios); err != nil {
					t.Errorf("clock %s: %v", steps, err)
				}
			}
		})
	}
}

// outOfTime upgrades the node, rolls it back and recovers it. At last a service exits, and
// only the right time tells that this was a moment ago.
func (v *victim) outOfTime(scenarios []scenario) error {
	for _, s := range scenarios {
		before := v.lastJournal()
		if _, err := v.prepare(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		o := v.Kollet(s.args...)
		if want := map[bool]int{s.broken: 1}[true]; o.Code != want {
			return fmt.Errorf("%s: exit status %d, want %d: %s", s.name, o.Code, want, short(o))
		}
		if v.due(before) != v.tag {
			v.tag = v.other()
		}
		if err := errors.Join(v.verified(v.tag), v.ended()); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if err := errors.Join(v.looks(), v.exits()); err != nil {
		return err
	}
	return v.goesOn(true)
}

// looks requires that commands that only show do so.
func (v *victim) looks() error {
	for _, args := range [][]string{{"status"}, {"history"}, {"plan"}, {"guests"}, {"logs", "beta", "--since", "1h"}} {
		if o := v.Kollet(args...); o.Code != 0 || strings.Contains(o.Stdout, "(-") || strings.Contains(o.Stdout, " -") && args[0] != "plan" && args[0] != "logs" {
			return fmt.Errorf("%s: exit status %d: %s", args[0], o.Code, o.All())
		}
	}
	var history []agent.Entry
	v.Ask(&history, "history")
	for _, e := range history {
		for _, step := range e.Steps {
			if step.Took < 0 || e.Took < 0 {
				return fmt.Errorf("history of generation %d: %+v", e.Generation, e)
			}
		}
		if e.Outcome == "" || e.Outcome == journal.Stuck {
			return fmt.Errorf("generation %d: outcome %q", e.Generation, e.Outcome)
		}
	}
	return nil
}

// exits lets beta exit by itself. For five minutes it is called restarting.
func (v *victim) exits() error {
	running, err := v.passed()
	if err != nil {
		return err
	}
	before := running["beta"]
	if err := unix.Kill(before.PID, unix.SIGKILL); err != nil {
		return err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		running, err := v.passed()
		if now := running["beta"]; err == nil && now.PID != 0 && now.PID != before.PID {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the engine has not started beta again: %w", err)
		}
	}
	for range 3 {
		var status agent.Status
		v.Ask(&status, "status")
		for _, s := range status.Services {
			if restarting := s.Health == "restarting"; restarting != (s.Name == "beta") {
				return fmt.Errorf("%s is %s: %s", s.Name, s.Health, s.Why)
			}
		}
	}
	return nil
}
