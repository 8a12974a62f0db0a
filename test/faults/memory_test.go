package faults

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
	"github.com/kollet/kollet/test/tiny/image"
)

// Limits of memory, for an upgrade with a pull.
const (
	enough = 24 << 20 // as docs/reliability.md says
	small  = 4 << 20
	step   = 1 << 20
)

// TestMemory upgrades with limits of memory, from one with which kollet hardly starts to one
// that is enough. What is killed is recovered.
func TestMemory(t *testing.T) {
	registry := machine.NewRegistry(t)
	for _, tag := range []string{"v1", "v2"} {
		image.Image{Tag: tag}.Push(t, registry.Addr, "test/tiny")
	}
	seed, limit := settings(t)
	engines := []func(testing.TB, int) nodetest.Engine{onContainerd, onDocker}
	if limit == defaultTime {
		engines = engines[:1] // on containerd kollet itself pulls
	}
	for i, start := range engines {
		engine := start(t, 0)
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			v := newVictim(t, engine, registry, 7900+100*i)
			if limit == defaultTime {
				v.upgradesWithin(small, false)
				v.upgradesWithin(enough, true)
				return
			}
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			least, killed := 0, 0
			for bytes := small; bytes < enough; bytes += step {
				if v.upgradesWithin(bytes, false) {
					least = bytes
					break
				}
			}
			// Close to what is needed, the kernel kills late.
			for range 20 {
				if !v.upgradesWithin(least-3*step/2+random.IntN(2*step), false) {
					killed++
				}
			}
			for range 5 {
				v.upgradesWithin(enough, true)
			}
			t.Logf("seed %d: the first upgrade succeeded with %d MiB; near that, %d of 20 were killed", seed, least>>20, killed)
		})
	}
}

// upgradesWithin reports whether an upgrade to a new image succeeds with this much memory. If it
// does not, it was killed, and is recovered.
func (v *victim) upgradesWithin(bytes int, must bool) bool {
	v.T.Helper()
	v.pushed++
	tag := fmt.Sprintf("m%d", v.pushed)
	image.Image{Tag: tag, Ballast: 8 << 20}.Push(v.T, v.registry.Addr, "test/tiny")
	before := v.lastJournal()
	v.configure(tag, false)
	o := v.limited(bytes, upgrade)
	if _, err := v.passed(); err != nil || o.Code != 0 && (o.Code != -1 || must) {
		v.T.Fatalf("%d KiB: exit status %d: %s %v", bytes>>10, o.Code, short(o), err)
	}
	if o.Code != 0 {
		v.T.Logf("%d KiB: killed after %q", bytes>>10, v.lastRecord())
		v.Must(0, "recover")
	}
	if o.Code == 0 || v.committed(before) {
		v.tag = tag
	}
	if err := errors.Join(v.verified(v.tag), v.goesOn(false)); err != nil {
		v.T.Fatalf("%d KiB, exit status %d: %v", bytes>>10, o.Code, err)
	}
	return o.Code == 0
}

// limited runs kollet in a cgroup with a limit of memory.
func (v *victim) limited(bytes int, args []string) nodetest.Outcome {
	v.T.Helper()
	cmd := v.Command(args...)
	// The shell stops itself before it becomes kollet.
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `kill -STOP $$; exec "$@"`, "sh"}, cmd.Args...)
	return v.Stops(cmd, func(pid int) bool {
		v.starve(pid, bytes)
		return false
	})
}

// starve lets a process have this much more memory, and no swap.
func (v *victim) starve(pid, bytes int) {
	v.T.Helper()
	groups := machine.NewCgroups(v.T)
	hierarchy := ""
	if slices.Contains(groups.Hierarchies(), "memory") {
		hierarchy = "memory"
	}
	v.starved++
	groups.Put(pid, fmt.Sprintf("/starved-%d-%d", v.port, v.starved), hierarchy)
	groups.LimitMemory(pid, bytes)
}
