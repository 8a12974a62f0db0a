package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

func TestMain(m *testing.M) {
	if os.Getenv(enterVar) != "" {
		launch()
	}
	machine.Main(m)
}

// TestEngine lets calls of the engine go wrong.
func TestEngine(t *testing.T) {
	kinds := onceAndForGood(engineFaults...)
	t.Run("docker", func(t *testing.T) { attackDocker(t, kinds) })
	t.Run("containerd", func(t *testing.T) { attackContainerd(t, kinds) })
}

// TestSilentEngine leaves a call of the engine without an answer, and kollet waits for it until
// its limit. If no call were answered any longer, each attempt would take minutes.
func TestSilentEngine(t *testing.T) {
	kinds := []fault{{name: never}}
	t.Run("docker", func(t *testing.T) { attackDocker(t, kinds) })
	if everyEngine() {
		t.Run("containerd", func(t *testing.T) { attackContainerd(t, kinds) })
	}
}

// everyEngine reports whether each attack is made on each engine. make test, which sets neither
// seed nor time, leaves some of them to make chaos.
func everyEngine() bool { return os.Getenv(seedVar)+os.Getenv(timeVar) != "" }

// attackDocker injects faults of Docker's calls.
func attackDocker(t *testing.T, kinds []fault) {
	attack(t, onDocker, func(t testing.TB, e nodetest.Engine) suite {
		path := strings.TrimPrefix(e.Socket, "unix://") + ".proxy"
		return engineSuite{callsFail{}, newDockerProxy(t, e.Socket, path), kinds, "unix://" + path}
	})
}

// attackContainerd injects faults of containerd's calls.
func attackContainerd(t *testing.T, kinds []fault) {
	attack(t, onContainerd, func(t testing.TB, e nodetest.Engine) suite {
		path := e.Socket + ".proxy"
		return engineSuite{callsFail{}, newContainerdProxy(t, e.Socket, path), kinds, strings.Replace(e.Address, e.Socket, path, 1)}
	})
}

// TestSystemCalls lets system calls below the state directory fail.
func TestSystemCalls(t *testing.T) {
	calls := func(testing.TB, nodetest.Engine) suite { return callSuite{} }
	if everyEngine() {
		t.Run("docker", func(t *testing.T) { attack(t, onDocker, calls) })
	}
	t.Run("containerd", func(t *testing.T) { attack(t, onContainerd, calls) })
}

// TestKills kills kollet, the engine and its shims after records of the journal.
func TestKills(t *testing.T) {
	t.Run("docker", func(t *testing.T) {
		attack(t, onDocker, func(_ testing.TB, e nodetest.Engine) suite { return newKillSuite(e) })
	})
	t.Run("containerd", func(t *testing.T) {
		attack(t, onContainerd, func(_ testing.TB, e nodetest.Engine) suite { return newKillSuite(e) })
	})
}

// onDocker starts Docker. Every second node keeps its containers while dockerd is away.
func onDocker(t testing.TB, node int) nodetest.Engine {
	if node%2 == 1 {
		return nodetest.OnDocker(machine.Dockerd(t, machine.LiveRestore()))
	}
	return nodetest.OnDocker(machine.Dockerd(t))
}

func onContainerd(t testing.TB, _ int) nodetest.Engine {
	return nodetest.OnContainerd(machine.NewContainerd(t))
}

// callsFail is what the suites have in common in which calls fail.
type callsFail struct{}

func (callsFail) scenarios() []scenario {
	return []scenario{upgrades, rollsBack, recoversBack, recoversTheUpgrade}
}

func (callsFail) patience() time.Duration { return 0 }

// onceAndForGood returns faults that happen once, and those that last.
func onceAndForGood(names ...string) []fault {
	var all []fault
	for _, name := range names {
		all = append(all, fault{name, false}, fault{name, true})
	}
	return all
}

// againAfter returns one fault at any call of the recovery that follows a lasting one.
// After other faults there is hardly anything to recover.
func againAfter(r *rand.Rand, s suite, a attempt, calls []string) []strike {
	if len(a.strikes) == 1 && a.last().lasting {
		return anywhere(r, s, calls)
	}
	return nil
}

// engineSuite injects faults with a proxy before the engine's socket.
type engineSuite struct {
	callsFail
	proxy
	kinds   []fault
	address string
}

func (s engineSuite) faults() []fault { return s.kinds }

func (engineSuite) applies(scenario, fault, string) bool { return true }

func (s engineSuite) again(r *rand.Rand, a attempt, calls []string) []strike {
	return againAfter(r, s, a, calls)
}

func (s engineSuite) run(v *victim, f fault, t *trigger, args []string) nodetest.Outcome {
	s.inject(f.name, t)
	defer s.inject("", nil)
	n := *v.Node
	n.Socket = s.address
	if f.name == never {
		args = append(slices.Clone(args), "--engine-timeout", engineTimeout.String())
	}
	return n.Kollet(args...)
}

// injection is what a proxy does to the calls that it gets.
type injection struct {
	mutex   sync.Mutex
	fault   string
	trigger *trigger
}

func (i *injection) inject(fault string, t *trigger) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.fault, i.trigger = fault, t
}

func (i *injection) current() (string, *trigger) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.fault, i.trigger
}

// callSuite injects errors of system calls.
type callSuite struct{ callsFail }

func (callSuite) faults() []fault { return onceAndForGood("ENOSPC", "EIO", "EROFS") }

func (f fault) errno() syscall.Errno {
	for errno, name := range errnoNames {
		if name == f.name {
			return errno
		}
	}
	return 0
}

func (callSuite) applies(_ scenario, f fault, call string) bool {
	return canFail(call, f.errno(), f.lasting)
}

func (s callSuite) again(r *rand.Rand, a attempt, calls []string) []strike {
	return againAfter(r, s, a, calls)
}

func (callSuite) run(v *victim, f fault, t *trigger, args []string) nodetest.Outcome {
	cmd := v.Command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = failCalls(v.T, cmd, v.Path(node.StateDir), f.errno(), t)
	return outcome(v.T, cmd, stderr.String())
}

// Seed and time of an attack. make test uses the defaults, make chaos sets both.
const (
	seedVar = "KOLLET_CHAOS_SEED"
	timeVar = "KOLLET_CHAOS_TIME" // for each suite; 0: as long as it takes
	partVar = "KOLLET_CHAOS_PART" // of the attempts, such as 2/3
	onceVar = "KOLLET_CHAOS_ONCE" // yes: no faults in the recoveries that follow

	defaultSeed = 1
	defaultTime = 6 * time.Second
)

func settings(t testing.TB) (seed uint64, limit time.Duration) {
	t.Helper()
	seed, limit = defaultSeed, defaultTime
	if text := os.Getenv(seedVar); text != "" {
		_, err := fmt.Sscan(text, &seed)
		check(t, err)
	}
	if text := os.Getenv(timeVar); text != "" {
		var err error
		limit, err = time.ParseDuration(text)
		check(t, err)
	}
	return seed, limit
}

func chosenPart(t testing.TB) part {
	t.Helper()
	p, err := parse(os.Getenv(partVar))
	check(t, err)
	p.once = os.Getenv(onceVar) != ""
	return p
}

// parse returns the part that a text means; an empty one is the whole.
func parse(text string) (p part, err error) {
	if text == "" {
		return part{}, nil
	}
	if _, err := fmt.Sscanf(text+"\n", "%d/%d\n", &p.n, &p.of); err != nil || p.n < 1 || p.n > p.of {
		return p, fmt.Errorf("%s: expected a part, such as 2/3, got %q", partVar, text)
	}
	return p, nil
}

// number returns a number from the environment, or what make test uses.
func number(t testing.TB, name string, otherwise int) int {
	t.Helper()
	n := otherwise
	if text := os.Getenv(name); text != "" {
		_, err := fmt.Sscan(text, &n)
		check(t, err)
	}
	return n
}

// How many nodes are attacked at the same time, each on an engine of its own.
const (
	nodesVar     = "KOLLET_CHAOS_NODES"
	defaultNodes = 1
)

// attack makes the attempts of a suite on nodes, in an order that the seed chooses, until
// all were made or the time is over.
func attack(t *testing.T, start func(testing.TB, int) nodetest.Engine, suites func(testing.TB, nodetest.Engine) suite) {
	file := openProgress(t)
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	seed, limit := settings(t)
	of := chosenPart(t)
	var q *queue
	var once sync.Once
	name := t.Name()
	t.Run("nodes", func(t *testing.T) {
		for i := range number(t, nodesVar, defaultNodes) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				engine := start(t, i)
				s := suites(t, engine)
				v := newVictim(t, engine, registry, 7100+100*i)
				once.Do(func() { q = newQueue(s, newEarlier(file, name, s.scenarios()), seed, of, limit) })
				q.work(t, s, v, i)
			})
		}
	})
	t.Logf("seed %d\n%s", seed, &q.table)
}
