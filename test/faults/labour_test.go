package faults

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/nodetest"
)

// maternity is a node whose alpha breeds guests.
type maternity struct {
	*victim
	runs    manner // what alpha is
	before  manner // what it was in the generation before
	random  *rand.Rand
	next    []scenario
	lengths map[string]int // the records that a command added to the journal when it was made last
	births  *birthTable
}

// try carries out an attempt.
func (m *maternity) try(l labour) error {
	if l.scenario.name != rollbackCommand.name {
		m.nursery.manner = l.to
		m.configure(m.other(), l.scenario.broken)
	}
	if err := m.nursery.orderLast(l.last); err != nil {
		return err
	}
	var story strings.Builder
	before, twice := m.lastJournal(), m.watch()
	err := errors.Join(m.deliver(l, before, &story), twice(), m.nursery.twice())
	if err == nil {
		err = m.nursery.empty(m.uuid)
	}
	if err == nil {
		err = m.goesOn(false)
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, story.String())
	}
	return nil
}

// deliver runs the commands of an attempt. It checks all guests after each, and the node
// after the last. before is the last journal of before the attempt.
func (m *maternity) deliver(l labour, before string, story *strings.Builder) error {
	row := m.births.row(l)
	row.attempts++
	untouched, err := m.passed()
	if err != nil {
		return err
	}
	args := l.scenario.args
	var o nodetest.Outcome
	for i := range len(l.kills) + 1 {
		o = m.run(l, i, args, before)
		fmt.Fprintf(story, "\n%s: exit status %d: %s", strings.Join(args, " "), o.Code, short(o))
		row.status[o.Code]++
		if err := m.alive(); err != nil {
			return errors.Join(err, m.count(row, before))
		}
		if o.Code != -1 {
			break // also if it was faster than the kill
		}
		args = recovery
	}
	if err := errors.Join(m.nursery.enough(), m.count(row, before)); err != nil {
		return err
	}
	return m.arrived(l, args, before, o, untouched)
}

// arrived checks where the node ended. The exit status is that of a command in which
// nothing failed, or the command was refused.
func (m *maternity) arrived(l labour, args []string, before string, o nodetest.Outcome, untouched map[string]containers.Container) error {
	if o.Code == 1 && !l.scenario.broken && !slices.Equal(args, recovery) {
		m.births.row(l).refused++
		now, err := m.passed()
		same := func(a, b containers.Container) bool { return a.ID == b.ID && a.PID == b.PID }
		if err == nil && !maps.EqualFunc(now, untouched, same) {
			err = errors.New("it failed, and touched the node")
		}
		return errors.Join(err, m.alive())
	}
	due := m.due(before)
	want, to := 0, m.other()
	switch {
	case slices.Equal(args, recovery):
		to = due
	case l.scenario.broken:
		want, to = 1, m.tag
	}
	if o.Code != want || due != to {
		return fmt.Errorf("exit status %d, and the journal says %s", o.Code, due)
	}
	if err := errors.Join(m.verified(to), m.ended(), m.alive()); err != nil {
		return err
	}
	if to != m.tag {
		m.births.row(l).new++
		m.tag, m.before, m.runs = to, m.runs, l.to
	}
	return nil
}

// alive requires that each guest that was born still is the process that it was.
func (m *maternity) alive() error {
	all, err := m.nursery.births()
	if gone := lost(all); len(gone) > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d guests are lost: %v", len(gone), len(all), gone))
	}
	return err
}

// count adds the births of an attempt to the table.
func (m *maternity) count(row *birthRow, before string) error {
	all, err := m.nursery.births()
	records := m.records()
	if m.lastJournal() == before {
		records = nil
	}
	m.births.add(row, all, records)
	return err
}

// run runs a command of an attempt. The births begin in it or continue, and kollet may be
// killed.
func (m *maternity) run(l labour, i int, args []string, before string) nodetest.Outcome {
	m.T.Helper()
	running, err := m.passed()
	check(m.T, err)
	p := underWay{before: before, base: m.added(before), first: running["alpha"].PID, ended: make(chan struct{})}
	cmd := m.Command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	check(m.T, cmd.Start())
	var going sync.WaitGroup
	at := func(when moment, do func() error) {
		going.Go(func() {
			if !m.await(when, p) {
				return
			}
			if err := do(); err != nil && !errors.Is(err, os.ErrProcessDone) {
				m.T.Error(err)
			}
		})
	}
	if i == l.in {
		at(l.begin, func() error { return m.nursery.order(l.pause) })
	}
	if i < len(l.kills) {
		at(l.kills[i], cmd.Process.Kill)
	}
	going.Go(func() { m.limit(p.ended) })
	_ = cmd.Wait()
	close(p.ended)
	going.Wait()
	if cmd.ProcessState.ExitCode() != -1 {
		m.lengths[l.command(i)] = m.added(before) - p.base
	}
	return outcome(m.T, cmd, stderr.String())
}

// added returns how many records the attempt's journal has.
func (m *maternity) added(before string) int {
	last := m.lastJournal()
	if last == before {
		return 0
	}
	text, _ := os.ReadFile(last)
	return bytes.Count(text, []byte("\n"))
}

// underWay is what a command of an attempt is watched by.
type underWay struct {
	before string // the last journal of before the attempt
	base   int    // the records of the attempt's journal when the command began
	first  int    // the first process of alpha's container then; 0: it did not run
	ended  chan struct{}
}

// await returns true at a moment of a command, or false when the command has ended.
func (m *maternity) await(when moment, p underWay) bool {
	come := func() bool { return m.added(p.before)-p.base >= when.record }
	interval := time.Millisecond
	if when.exit {
		come = func() bool { return p.first > 0 && strings.Contains("ZX", stat(p.first, 0)) }
		interval = 50 * time.Microsecond
	}
	for !come() {
		select {
		case <-p.ended:
			return false
		case <-time.After(interval):
		}
	}
	select {
	case <-p.ended:
		return false
	case <-time.After(when.after):
		return true
	}
}

// limit ends the orders when there were enough births.
func (m *maternity) limit(ended <-chan struct{}) {
	for {
		if all, _ := m.nursery.births(); len(all) >= mostBorn {
			if err := m.nursery.enough(); err != nil {
				m.T.Error(err)
			}
			return
		}
		select {
		case <-ended:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}
