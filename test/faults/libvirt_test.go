package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestLibvirt kills kollet, up to three commands in a row, and shims, while it replaces
// libvirt under a guest of QEMU.
func TestLibvirt(t *testing.T) {
	nodetest.ShareRun(t)
	if everyEngine() {
		t.Run("docker", func(t *testing.T) { attackLibvirt(t, onDocker(t, 1)) })
	}
	t.Run("containerd", func(t *testing.T) {
		attackLibvirt(t, nodetest.OnContainerd(machine.NewContainerd(t, machine.BoundedRuntime())))
	})
}

func attackLibvirt(t *testing.T, engine nodetest.Engine) {
	file := openProgress(t)
	registry := machine.NewRegistry(t, machine.RegistryDir(nodetest.Overlay(t, nodetest.Built(t, "registry"))))
	seed, limit := settings(t)
	h := newHypervisor(t, engine, registry, seed)
	s := libvirtSuite{newKillSuite(engine), rand.New(rand.NewPCG(seed, 2))}
	q := newQueue(s, newEarlier(file, t.Name(), s.scenarios()), seed, chosenPart(t), limit)
	for a, ok := q.next(); ok && !t.Failed(); a, ok = q.next() {
		begun := time.Now()
		r, err := h.try(s, a)
		check(t, q.done(finished{attempt: a, result: r, err: err, took: time.Since(begun)}))
		if err != nil { // it is not known what is left of the node
			t.Errorf("%s (%s): %v", a, r.call, err)
		}
	}
	t.Logf("seed %d\n%s%d guests were started; before %d attempts one was in libvirt's cgroup", seed, &q.table, h.births, h.insides)
}

// killedLater is between two records, or when kollet wrote the last one a while ago.
var killedLater = fault{name: "kollet is killed some time after"}

func killsKollet(f fault) bool { return f == killedKollet || f == killedLater }

// libvirtSuite kills kollet and shims while libvirt is replaced.
type libvirtSuite struct {
	killSuite
	random *rand.Rand
}

// The real services need no --force.
var (
	libvirtUpgrades  = scenario{name: "upgrade", args: []string{"upgrade"}}
	libvirtRollsBack = scenario{name: "rollback", args: []string{"upgrade"}, broken: true}
	libvirtRollback  = scenario{name: "kollet rollback", args: []string{"rollback"}}
)

// scenarios has no recoveries: they come after every kill.
func (libvirtSuite) scenarios() []scenario {
	return []scenario{libvirtUpgrades, libvirtRollsBack, libvirtRollback}
}

func (libvirtSuite) faults() []fault { return []fault{killedKollet, killedLater, killedOld, killedNew} }

// applies lets shims be killed in an upgrade only: TestKills kills more of them in less time.
func (libvirtSuite) applies(s scenario, f fault, call string) bool {
	switch f {
	case killedOld:
		return s.name == libvirtUpgrades.name && strings.Contains(call, besideOld)
	case killedNew:
		return s.name == libvirtUpgrades.name && strings.Contains(call, besideNew)
	}
	return true
}

// again returns kills of kollet at every record of the recovery, and as many after one.
func (libvirtSuite) again(_ *rand.Rand, a attempt, calls []string) []strike {
	if len(a.strikes) == depth {
		return nil
	}
	var all []strike
	for n := range calls {
		all = append(all, strike{killedKollet, n + 1}, strike{killedLater, n + 1})
	}
	return all
}

// longestLater is about as long as the longest pause between two records.
const longestLater = 2 * time.Second

// later returns a time after a record: each order of magnitude is as likely as the others,
// as most pauses are short.
func later(r *rand.Rand) time.Duration {
	return longestLater >> r.IntN(12) * time.Duration(1000+r.IntN(1000)) / 2000
}

// run is for killSuite, except that kollet is killed later.
func (s libvirtSuite) run(v *victim, f fault, t *trigger, args []string) nodetest.Outcome {
	if f != killedLater {
		return s.killSuite.run(v, f, t, args)
	}
	var killing sync.WaitGroup
	ended := make(chan struct{})
	o := v.Stepwise(args, func(kollet int) (kill bool) {
		if t.injected() != "" || !t.fires(v.lastRecord()) {
			return false
		}
		process, err := unix.PidfdOpen(kollet, 0)
		check(v.T, err)
		pause := later(s.random)
		killing.Go(func() {
			defer unix.Close(process)
			select {
			case <-ended:
			case <-time.After(pause):
				_ = unix.PidfdSendSignal(process, unix.SIGKILL, nil, 0) // it may have exited
			}
		})
		return false
	})
	close(ended)
	killing.Wait()
	return o
}

// try carries out an attempt.
func (h *hypervisor) try(s libvirtSuite, a attempt) (result, error) {
	var r result
	if err := h.birth(); err != nil {
		return r, err
	}
	var story strings.Builder
	twice := watching(oneLibvirt)
	err := h.suffer(s, a, &r, &story)
	if err = errors.Join(err, twice()); err == nil {
		err = h.goesOn(r.status == 4 || a.last().at%16 == 7)
	}
	if err != nil {
		err = fmt.Errorf("%w%s", err, story.String())
	}
	return r, err
}

// suffer runs the commands of an attempt, and a recovery without a fault. It checks the
// node after each.
func (h *hypervisor) suffer(s libvirtSuite, a attempt, r *result, story *strings.Builder) error {
	before := h.lastJournal()
	h.configure(h.other(), a.scenario.broken)
	args := a.scenario.args
	armed := h.armed(a.scenario)
	run := func(hit strike, t *trigger) nodetest.Outcome {
		o := s.run(h.victim, hit.fault, t, args)
		fmt.Fprintf(story, "\n%s: exit status %d: %s", strings.Join(args, " "), o.Code, short(o))
		return o
	}
	for _, hit := range a.strikes {
		t := &trigger{at: hit.at, armed: armed}
		if hit.at > 0 {
			t.applies = func(call string) bool { return s.applies(a.scenario, hit.fault, call) }
		}
		begun := time.Now()
		o := run(hit, t)
		if r.first == 0 {
			r.first = time.Since(begun)
		}
		r.calls, r.status = t.counted(), o.Code
		if err := errors.Join(settled(s, func() error { return h.after(a, args, before, o) }), h.alive()); err != nil {
			return err
		}
		args, armed = recovery, nil
		if hit.at > 0 && (t.injected() == "" || killsKollet(hit.fault) && o.Code != -1) {
			break // it had ended before
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
	due := h.due(before)
	r.new = due != h.tag
	if err := errors.Join(settled(s, func() error { return h.verified(due) }), h.alive(), h.ended()); err != nil {
		return err
	}
	h.tag = due
	return nil
}

// after checks the node while kollet has not run again. Only a killed shim may make a
// command fail.
func (h *hypervisor) after(a attempt, args []string, before string, o nodetest.Outcome) error {
	recovers, first := slices.Equal(args, recovery), a.strikes[0].fault
	shims := first == killedOld || first == killedNew
	want := 0
	if a.scenario.broken && !recovers {
		want = 1
	}
	switch {
	case o.Code == -1 && (!shims || recovers): // killed
		_, err := h.running()
		return err
	case o.Code != want && !(shims && documented[o.Code]):
		return errors.New("the exit status is wrong")
	case recovers && o.Code != 0 || o.Code == 4:
		return nil
	case recovers:
		return h.whole(h.due(before))
	case o.Code == 0:
		return h.whole(h.other())
	}
	return h.whole(h.tag)
}
