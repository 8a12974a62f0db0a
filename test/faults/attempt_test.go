package faults

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/nodetest"
)

// A suite injects one kind of fault.
type suite interface {
	// faults are what goes wrong with a call.
	faults() []string
	// trigger returns a trigger for a fault that happens nowhere yet.
	trigger(fault string, lasting bool) *trigger
	// run runs a command of the node with the fault.
	run(v *victim, fault string, t *trigger, args []string) nodetest.Outcome
}

// attempt is one fault at one call of a scenario.
type attempt struct {
	scenario scenario
	fault    string
	lasting  bool
	at       int // 0: no fault; the calls are counted
}

func (a attempt) String() string {
	return fmt.Sprintf("%s, call %d %s", a.scenario.name, a.at, a.what())
}

func (a attempt) what() string {
	if a.lasting {
		return a.fault + ", and all that follow"
	}
	return a.fault + ", once"
}

// result is what came out of an attempt.
type result struct {
	call      string // that failed first; empty: the command made fewer calls
	calls     []string
	status    int // of the command in which calls failed
	recovered int // of `kollet recover` after it
}

// documented are the exit statuses that a command may end with while calls fail.
var documented = map[int]bool{0: true, 1: true, 4: true}

// try carries out an attempt on a node, which ends on the other version.
func (v *victim) try(s suite, a attempt) (result, error) {
	guest, err := v.birth()
	if err != nil {
		return result{}, err
	}
	t := s.trigger(a.fault, a.lasting)
	t.at = a.at
	if t.armed, err = v.prepare(a.scenario); err != nil {
		return result{}, err
	}
	o := s.run(v, a.fault, t, a.scenario.args)
	r := result{call: t.injected(), calls: t.counted(), status: o.Code}
	if err := errors.Join(v.after(a, o), alive(guest)); err != nil {
		return r, fmt.Errorf("%w\nafter exit status %d: %s", err, o.Code, short(o))
	}
	again := v.Kollet("recover")
	r.recovered = again.Code
	if err := errors.Join(v.recovered(a, o, again), alive(guest)); err != nil {
		return r, fmt.Errorf("%w\nafter exit status %d: %s\nrecover: exit status %d: %s", err, o.Code, short(o), again.Code, short(again))
	}
	if err := end(guest); err != nil {
		return r, err
	}
	if o.Code == 4 || a.at%4 == 0 { // of the others, a quarter; the next attempt upgrades the node anyway
		return r, v.goesOn(o)
	}
	if v.whole(v.tag) != nil {
		v.tag = v.other()
	}
	if last := v.Kollet("gc"); last.Code != 0 {
		return r, fmt.Errorf("gc: exit status %d: %s\nafter exit status %d: %s", last.Code, short(last), o.Code, short(o))
	}
	return r, v.clean()
}

// goesOn requires that the node can be upgraded without faults and keeps nothing.
func (v *victim) goesOn(o nodetest.Outcome) error {
	v.configure(v.other(), false)
	for _, command := range [][]string{upgrade, {"gc"}} {
		if last := v.Kollet(command...); last.Code != 0 {
			return fmt.Errorf("the next %s: exit status %d: %s\nafter exit status %d: %s", command[0], last.Code, short(last), o.Code, short(o))
		}
	}
	v.tag = v.other()
	if err := errors.Join(v.whole(v.tag), v.clean()); err != nil {
		return fmt.Errorf("after the next upgrade: %w\nafter exit status %d: %s", err, o.Code, short(o))
	}
	return nil
}

// after checks the node while kollet has not run again.
func (v *victim) after(a attempt, o nodetest.Outcome) error {
	if !documented[o.Code] {
		return errors.New("the exit status is wrong")
	}
	if strings.Contains(o.Stderr, "defect") || strings.Contains(o.Stderr, "panic") {
		return errors.New("kollet panicked")
	}
	if _, err := v.passed(); err != nil {
		return err
	}
	switch {
	case a.scenario.args[0] == "recover" && o.Code == 1: // says nothing about the node
		return nil
	case o.Code == 0:
		return v.whole(v.aim(a))
	case o.Code == 1:
		return v.whole(v.tag)
	}
	return nil
}

// aim is the version on which a command that succeeds leaves the node.
func (v *victim) aim(a attempt) string {
	if a.scenario.name == "recovery that rolls back" {
		return v.tag
	}
	return v.other()
}

// recovered checks the node after the fault is gone and `kollet recover` has run.
func (v *victim) recovered(a attempt, o, again nodetest.Outcome) error {
	if again.Code != 0 {
		return errors.New("recover failed")
	}
	err := v.whole(v.tag)
	if o.Code == 1 && a.scenario.args[0] != "recover" {
		return errors.Join(err, v.ended())
	}
	if err != nil {
		if other := v.whole(v.other()); other != nil {
			return fmt.Errorf("the node is mixed: not on %s: %w, not on %s: %w", v.tag, err, v.other(), other)
		}
	}
	return v.ended()
}

// outcome returns how a command ended.
func outcome(t testing.TB, cmd *exec.Cmd, stderr string) nodetest.Outcome {
	t.Helper()
	return nodetest.Outcome{Code: cmd.ProcessState.ExitCode(), Stderr: stderr}
}
