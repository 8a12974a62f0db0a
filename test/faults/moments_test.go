package faults

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// TestKillsAtAnyMoment kills kollet, its recovery and the recovery of that at any moment.
func TestKillsAtAnyMoment(t *testing.T) {
	kills := func(testing.TB, nodetest.Engine) suite {
		return &momentSuite{lengths: map[string]time.Duration{}, wanted: number(t, killsVar, defaultKills)}
	}
	t.Run("docker", func(t *testing.T) { attack(t, onDocker, kills) })
	if everyEngine() {
		t.Run("containerd", func(t *testing.T) { attack(t, onContainerd, kills) })
	}
}

const (
	killsVar     = "KOLLET_CHAOS_KILLS" // for each engine
	defaultKills = 10
)

// killedAnytime is at a number of microseconds after a command began.
var killedAnytime = fault{name: "kollet is killed at any moment"}

// momentSuite kills kollet at random moments, until there were enough kills. It plans no
// attempts.
type momentSuite struct {
	lengths map[string]time.Duration // of the commands that ended by themselves
	kills   int
	wanted  int
}

func (*momentSuite) scenarios() []scenario { return killSuite{}.scenarios() }

func (*momentSuite) faults() []fault { return []fault{killedAnytime} }

func (*momentSuite) applies(scenario, fault, string) bool { return true }

func (*momentSuite) again(*rand.Rand, attempt, []string) []strike { return nil }

func (*momentSuite) patience() time.Duration { return 0 }

func (*momentSuite) run(v *victim, _ fault, t *trigger, args []string) nodetest.Outcome {
	cmd := v.Command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(v.T, cmd.Start())
	if t.at > 0 {
		kill := time.AfterFunc(time.Duration(t.at)*time.Microsecond, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
	}
	_ = cmd.Wait()
	o := outcome(v.T, cmd, stderr.String())
	if o.Code == -1 {
		t.struck(v.lastRecord())
	}
	return o
}

// draw returns an attempt, until there were enough kills.
func (s *momentSuite) draw(r *rand.Rand) (attempt, bool) {
	if s.kills >= s.wanted {
		return attempt{}, false
	}
	a := attempt{scenario: s.scenarios()[r.IntN(len(s.scenarios()))]}
	command := a.scenario.name
	for range depth {
		// A fifth more than the last one took, so that its end is not missed. Most recoveries take
		// less time, and end before they are killed.
		longest := s.lengths[command] * 6 / 5
		a.strikes = append(a.strikes, strike{killedAnytime, 1 + r.IntN(max(1, int(longest.Microseconds())))})
		if command != recoversTheUpgrade.name {
			command = recoversBack.name
		}
	}
	return a, true
}

// learn counts the kills of an attempt and, if its first command was not killed, takes that
// one's length. It returns the attempt with the kills that happened.
func (s *momentSuite) learn(f finished) finished {
	s.kills += f.hits
	if f.hits == 0 {
		if f.err == nil {
			s.lengths[f.scenario.name] = f.first
		}
		return f
	}
	f.strikes = f.strikes[:f.hits]
	return f
}
