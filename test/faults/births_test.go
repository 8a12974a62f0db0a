package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// TestBirths has a service start guests at any moment of a command.
func TestBirths(t *testing.T) {
	t.Run("docker", func(t *testing.T) { breed(t, onDocker(t, 0)) })
	t.Run("containerd", func(t *testing.T) { breed(t, onContainerd(t, 0)) })
}

const (
	// briefTime is how long make test breeds on each engine.
	briefTime = 3 * time.Second
	// enoughBorn is how many births end an attack that no time limits.
	enoughBorn = 500
	// mostBorn is how many births are ordered in an attempt: the orders end a little later.
	mostBorn = 40
	// longestAfter is about as long as most steps of a tiny node take.
	longestAfter = 60 * time.Millisecond
)

// breed makes attempts that a seed chooses, until there were enough births or the time is
// over.
func breed(t *testing.T, engine nodetest.Engine) {
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	seed, limit := settings(t)
	if os.Getenv(timeVar) == "" {
		limit = briefTime
	}
	m := &maternity{
		victim: newVictimAt(t, engine, registry, 7300, t.TempDir()),
		random: rand.New(rand.NewPCG(seed, 0)), lengths: map[string]int{}, births: newBirthTable(),
	}
	m.runs = manners[m.random.IntN(len(manners))]
	m.before = m.runs
	m.nursery = &nursery{dir: m.Path("/nursery"), manner: m.runs}
	check(t, os.Mkdir(m.nursery.dir, 0o700))
	m.begin()
	for until := time.Now().Add(limit); !t.Failed(); {
		if limit == 0 && m.births.total() >= enoughBorn || limit > 0 && time.Now().After(until) {
			break
		}
		l := m.choose()
		if err := m.try(l); err != nil {
			t.Errorf("%v: %v", l, err)
		}
	}
	t.Logf("seed %d\n%s", seed, m.births)
}

// moment is a time in a command.
type moment struct {
	exit   bool          // the first process of alpha's container has exited, or
	record int           // the command has added so many records to the journal,
	after  time.Duration // and this has passed since
}

func (m moment) String() string {
	if m.exit {
		return fmt.Sprintf("%v after alpha's container exits", m.after)
	}
	return fmt.Sprintf("%v after record %d", m.after, m.record)
}

// labour is a command with births. If kollet is killed in it, a recovery follows, in which
// it may be killed again.
type labour struct {
	scenario scenario
	from, to manner        // what alpha is, and what it will be
	kills    []moment      // each in one command
	in       int           // the command in which the births begin
	begin    moment        // of that command
	pause    time.Duration // between two births, at most
	last     int           // births after SIGTERM
}

func (l labour) String() string {
	text := fmt.Sprintf("%s, alpha is %s, then %s", l.scenario.name, l.from, l.to)
	for i, k := range l.kills {
		text += fmt.Sprintf(", command %d is killed %v", i+1, k)
	}
	return text + fmt.Sprintf(", births begin in command %d %v, with pauses of %v, and %d come after SIGTERM", l.in+1, l.begin, l.pause, l.last)
}

// interrupted is an upgrade that is killed at any moment, and the recovery after it.
var interrupted = scenario{name: "killed upgrade and recovery", args: upgrade}

// choose returns an attempt.
func (m *maternity) choose() labour {
	if len(m.next) == 0 {
		m.next = []scenario{upgrades, rollsBack, rollbackCommand, interrupted}
		m.random.Shuffle(len(m.next), func(i, j int) { m.next[i], m.next[j] = m.next[j], m.next[i] })
	}
	l := labour{
		scenario: m.next[0],
		from:     m.runs,
		to:       manners[m.random.IntN(len(manners))],
		pause:    time.Duration(m.random.IntN(8)) * time.Millisecond,
		last:     m.random.IntN(4),
	}
	m.next = m.next[1:]
	switch l.scenario.name {
	case rollbackCommand.name:
		l.to = m.before
	case interrupted.name:
		l.kills = []moment{m.kill(upgrades.name)}
		if m.random.IntN(3) == 0 {
			l.kills = append(l.kills, m.kill(recovering))
		}
		l.in = m.random.IntN(len(l.kills) + 1)
	}
	l.begin = m.moment(l.command(l.in))
	return l
}

// recovering names a recovery among the commands that are counted.
const recovering = "recovery"

// command names one of the commands.
func (l labour) command(i int) string {
	switch {
	case i > 0:
		return recovering
	case len(l.kills) > 0:
		return upgrades.name
	}
	return l.scenario.name
}

// moment returns any moment of a command.
func (m *maternity) moment(command string) moment {
	records := m.lengths[command]
	if records == 0 { // it has not been made yet
		records = 20
	}
	return moment{record: m.random.IntN(records), after: time.Duration(m.random.Int64N(int64(longestAfter)))}
}

// kill returns when kollet is killed in a command. What it does after the exit of a service
// that it stops takes a few milliseconds, and would hardly be hit by chance.
func (m *maternity) kill(command string) moment {
	if m.random.IntN(2) == 0 {
		return moment{exit: true, after: time.Duration(m.random.Int64N(int64(5 * time.Millisecond)))}
	}
	return m.moment(command)
}
