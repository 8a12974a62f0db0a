package faults

import (
	"fmt"
	"os"
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
	t.Run("docker", func(t *testing.T) {
		attack(t, onDocker, func(t testing.TB, e nodetest.Engine) suite {
			path := strings.TrimPrefix(e.Socket, "unix://") + ".proxy"
			return engineSuite{newDockerProxy(t, e.Socket, path), "unix://" + path}
		})
	})
	t.Run("containerd", func(t *testing.T) {
		attack(t, onContainerd, func(t testing.TB, e nodetest.Engine) suite {
			path := e.Socket + ".proxy"
			return engineSuite{newContainerdProxy(t, e.Socket, path), strings.Replace(e.Address, e.Socket, path, 1)}
		})
	})
}

// TestSystemCalls lets system calls below the state directory fail.
func TestSystemCalls(t *testing.T) {
	calls := func(testing.TB, nodetest.Engine) suite { return callSuite{} }
	t.Run("docker", func(t *testing.T) { attack(t, onDocker, calls) })
	t.Run("containerd", func(t *testing.T) { attack(t, onContainerd, calls) })
}

func onDocker(t testing.TB) nodetest.Engine { return nodetest.OnDocker(machine.Dockerd(t)) }

func onContainerd(t testing.TB) nodetest.Engine {
	return nodetest.OnContainerd(machine.NewContainerd(t))
}

// engineSuite injects faults with a proxy before the engine's socket.
type engineSuite struct {
	proxy
	address string
}

func (engineSuite) faults() []string { return engineFaults }

func (engineSuite) trigger(_ string, lasting bool) *trigger { return &trigger{lasting: lasting} }

func (s engineSuite) run(v *victim, fault string, t *trigger, args []string) nodetest.Outcome {
	s.inject(fault, t)
	defer s.inject("", nil)
	n := *v.Node
	n.Socket = s.address
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
type callSuite struct{}

func (callSuite) faults() []string { return []string{"ENOSPC", "EIO", "EROFS"} }

func (callSuite) errno(fault string) syscall.Errno {
	for errno, name := range errnoNames {
		if name == fault {
			return errno
		}
	}
	return 0
}

func (s callSuite) trigger(fault string, lasting bool) *trigger {
	return &trigger{lasting: lasting, applies: callsThatFailWith(s.errno(fault), lasting)}
}

func (s callSuite) run(v *victim, fault string, t *trigger, args []string) nodetest.Outcome {
	cmd := v.Command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = failCalls(v.T, cmd, v.Path(node.StateDir), s.errno(fault), t)
	return outcome(v.T, cmd, stderr.String())
}

// Seed and time of an attack. make test uses the defaults, make chaos sets both.
const (
	seedVar = "KOLLET_CHAOS_SEED"
	timeVar = "KOLLET_CHAOS_TIME" // for each suite; 0: as long as it takes

	defaultSeed = 1
	defaultTime = 10 * time.Second
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

// most is how many attempts may fail before an attack ends.
const most = 20

// nodes are attacked at the same time, each on an engine of its own.
const nodes = 2

// attack tries the faults of a suite on nodes, in an order that the seed chooses, until
// all were tried or the time is over.
func attack(t *testing.T, start func(testing.TB) nodetest.Engine, suites func(testing.TB, nodetest.Engine) suite) {
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	seed, limit := settings(t)
	var q *queue
	t.Run("nodes", func(t *testing.T) {
		engine := start(t)
		s := suites(t, engine)
		v := newVictim(t, engine, registry, 7100)
		q = newQueue(t, v, s, seed, limit)
		t.Run("0", func(t *testing.T) {
			t.Parallel()
			q.work(t, s, v)
		})
		for i := 1; i < nodes; i++ {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				engine := start(t)
				q.work(t, suites(t, engine), newVictim(t, engine, registry, 7100+100*i))
			})
		}
	})
	t.Logf("seed %d\n%s", seed, q.table())
}

// work tries attempts on a node until there are none.
func (q *queue) work(t *testing.T, s suite, v *victim) {
	for a, ok := q.next(); ok; a, ok = q.next() {
		r, err := v.try(s, a)
		q.done(a, r, err)
		if err == nil {
			continue
		}
		t.Errorf("%s (%s): %v", a, r.call, err)
		v.Clear()
		v = newVictim(t, v.engine, v.registry, v.port+2)
	}
}
