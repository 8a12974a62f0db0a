package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// A suite injects one kind of fault.
type suite interface {
	scenarios() []scenario
	faults() []fault
	// applies reports whether a fault is possible at a call of a scenario's command.
	applies(s scenario, f fault, call string) bool
	// again returns what goes wrong in the recovery that follows an attempt and makes
	// these calls: one attempt for each.
	again(r *rand.Rand, a attempt, calls []string) []strike
	// run runs a command of the node with a fault at the calls that a trigger chooses.
	run(v *victim, f fault, t *trigger, args []string) nodetest.Outcome
	// patience is how long the engine may take until what it restarts serves again.
	patience() time.Duration
}

// A drawn suite has no plan: attempts are drawn from it, and it learns what came out of them.
// It returns them as they are counted.
type drawn interface {
	draw(r *rand.Rand) (a attempt, more bool)
	learn(f finished) finished
}

// fault is what goes wrong with a call.
type fault struct {
	name    string
	lasting bool // and with all that follow, until the command ends
}

func (f fault) String() string {
	if f.lasting {
		return f.name + ", and all that follow"
	}
	return f.name
}

// strike is a fault at one call of a command.
type strike struct {
	fault
	at int // 0: no fault; the calls are counted, or the time is taken
}

// attempt is a scenario's command with a fault, and recoveries after it with one each.
type attempt struct {
	scenario scenario
	strikes  []strike
}

// last is the last command's strike.
func (a attempt) last() strike { return a.strikes[len(a.strikes)-1] }

// then returns the attempt with a fault in the recovery that follows.
func (a attempt) then(s strike) attempt {
	return attempt{scenario: a.scenario, strikes: append(slices.Clone(a.strikes), s)}
}

func (a attempt) String() string {
	text := a.scenario.name
	for i, s := range a.strikes {
		if i > 0 {
			text += "; then recover"
		}
		if s.fault == killedAnytime {
			text += fmt.Sprintf(", kollet is killed after %v", time.Duration(s.at)*time.Microsecond)
			continue
		}
		text += fmt.Sprintf(", call %d %s", s.at, s.fault)
	}
	return text
}

// in says in which command the last fault is.
func (a attempt) in() string {
	return a.scenario.name + []string{"", ", then recover", ", then recover twice"}[len(a.strikes)-1]
}

// key names the attempt's row of the table.
func (a attempt) key() string { return a.in() + ": " + a.last().String() }

// result is what came out of an attempt.
type result struct {
	hits   int           // how many of the faults happened: commands may make fewer calls than before
	call   string        // at which the last one happened
	calls  []string      // of the recovery without a fault, or those that were counted
	status int           // of the last command with a fault; -1: killed
	new    bool          // the node ended on the new version
	first  time.Duration // of the first command
}

// finished is an attempt with what came out of it.
type finished struct {
	attempt
	result
	err  error
	next []strike // in the recovery, each of them for another attempt
	node int      // of those that are attacked at once
	took time.Duration
}

// missed reports whether one of the faults did not happen.
func (f finished) missed() bool { return f.hits < len(f.strikes) }

var recovery = []string{"recover"}

// try carries out an attempt on a node.
func (v *victim) try(s suite, a attempt) (result, error) {
	var r result
	if err := v.birth(); err != nil {
		return r, err
	}
	before := v.lastJournal()
	armed, err := v.prepare(a.scenario)
	if err != nil {
		return r, err
	}
	var story strings.Builder
	twice := v.watch()
	err = v.suffer(s, a, before, armed, &r, &story)
	if err = errors.Join(err, twice()); err == nil {
		err = v.endGuest()
	}
	if err == nil {
		// A service that lost its shim counts as restarting for minutes, in the next attempt too.
		err = v.goesOn(r.status == 4 || a.killsShims() || a.last().at%4 == 0)
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, story.String())
	}
	return r, err
}

// suffer runs the commands of an attempt, and a recovery without a fault. It checks the
// node after each.
func (v *victim) suffer(s suite, a attempt, before string, armed func() bool, r *result, story *strings.Builder) error {
	args := a.scenario.args
	run := func(hit strike, t *trigger) nodetest.Outcome {
		o := s.run(v, hit.fault, t, args)
		fmt.Fprintf(story, "\n%s: exit status %d: %s", strings.Join(args, " "), o.Code, short(o))
		return o
	}
	for _, hit := range a.strikes {
		t := &trigger{at: hit.at, lasting: hit.lasting, armed: armed}
		if hit.at > 0 {
			t.applies = func(call string) bool { return s.applies(a.scenario, hit.fault, call) }
		}
		begun := time.Now()
		o := run(hit, t)
		if r.first == 0 {
			r.first = time.Since(begun)
		}
		r.calls, r.status = t.counted(), o.Code
		if err := errors.Join(settled(s, func() error { return v.after(args, before, hit.fault, o) }), v.alive()); err != nil {
			return err
		}
		args, armed = recovery, nil
		if t.injected() == "" {
			break
		}
		r.hits++
		r.call = t.injected()
	}
	t := &trigger{}
	if o := run(strike{}, t); o.Code != 0 && !restarted(a, o) {
		return errors.New("recover failed")
	}
	if a.last().at > 0 {
		r.calls = t.counted()
	}
	r.new = v.due(before) != v.tag
	if err := errors.Join(settled(s, func() error { return v.verified(v.due(before)) }), v.alive(), v.ended()); err != nil {
		return err
	}
	if r.new {
		v.tag = v.other()
	}
	return nil
}

// restarted reports whether a recovery ended with a service that the engine had to start
// again. For five minutes kollet does not call it healthy.
func restarted(a attempt, o nodetest.Outcome) bool {
	return a.killsShims() && o.Code == 4 && strings.Contains(o.Stderr, "nothing is left to undo") && strings.Contains(o.Stderr, ": restarting (")
}

func (a attempt) killsShims() bool {
	return slices.ContainsFunc(a.strikes, func(s strike) bool { return s.fault == killedOld || s.fault == killedNew })
}

// settled checks the node until the check succeeds or the suite's patience ends.
func settled(s suite, check func() error) error {
	err := check()
	for until := time.Now().Add(s.patience()); err != nil && time.Now().Before(until); err = check() {
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// verified requires that the node is on one version, and that kollet says so too.
func (v *victim) verified(tag string) error {
	if err := v.whole(tag); err != nil {
		return err
	}
	if o := v.Kollet("verify"); o.Code != 0 {
		return fmt.Errorf("verify: exit status %d: %s", o.Code, o.All())
	}
	return nil
}

// goesOn requires that the node keeps nothing and, if it is upgraded before, that this
// succeeds without faults.
func (v *victim) goesOn(upgraded bool) error {
	if upgraded {
		v.configure(v.other(), false)
		if o := v.Kollet(upgrade...); o.Code != 0 {
			return fmt.Errorf("the next upgrade: exit status %d: %s", o.Code, short(o))
		}
		v.tag = v.other()
		if err := v.whole(v.tag); err != nil {
			return fmt.Errorf("after the next upgrade: %w", err)
		}
	}
	if o := v.Kollet("gc"); o.Code != 0 {
		return fmt.Errorf("gc: exit status %d: %s", o.Code, short(o))
	}
	return v.clean()
}

// documented are the exit statuses that a command may end with while something fails.
var documented = map[int]bool{0: true, 1: true, 4: true}

// after checks the node while kollet has not run again. before is the last journal of
// before the attempt.
func (v *victim) after(args []string, before string, f fault, o nodetest.Outcome) error {
	if killed := o.Code == -1 && (f == killedKollet || f == starvedOfAll || f == killedAnytime); !killed && !documented[o.Code] {
		return errors.New("the exit status is wrong")
	}
	if strings.Contains(o.Stderr, "defect") || strings.Contains(o.Stderr, "panic") {
		return errors.New("kollet panicked")
	}
	if _, err := v.passed(); err != nil {
		return err
	}
	recovers := slices.Equal(args, recovery)
	switch {
	case recovers && o.Code == 1: // says nothing about the node
		return nil
	case recovers && o.Code == 0:
		return v.whole(v.due(before))
	case o.Code == 0:
		return v.whole(v.other())
	case o.Code == 1:
		return v.whole(v.tag)
	}
	return nil
}

// outcome returns how a command ended.
func outcome(t testing.TB, cmd *exec.Cmd, stderr string) nodetest.Outcome {
	t.Helper()
	return nodetest.Outcome{Code: cmd.ProcessState.ExitCode(), Stderr: stderr}
}
