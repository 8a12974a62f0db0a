package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/nodetest"
)

// TestRegistry makes the registry sick before a pull and before an upgrade. Nothing of the
// node changes, and when the registry is well again, the same command succeeds.
func TestRegistry(t *testing.T) {
	if out, err := exec.Command("ip", "address", "add", foreign+"/32", "dev", "lo").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, engine := range []nodetest.Engine{
		// By default Docker tries five times to fetch a layer, within a minute and a half.
		nodetest.OnDocker(machine.Dockerd(t, machine.DockerArgs("--max-download-attempts=1"))),
		nodetest.OnContainerd(machine.NewContainerd(t)),
	} {
		t.Run(engine.Name, func(t *testing.T) {
			t.Parallel()
			registry := newSickRegistry(t)
			node := newVictim(t, engine, &machine.Registry{Addr: registry.addr}, 7500+100*i)
			node.images = ", stall_timeout: 1s"
			attackRegistry(t, node, registry)
		})
	}
}

// registryTime is how long attempts are made in make test.
const registryTime = 3 * time.Second

// disease is an attempt: what is wrong with the registry before a command.
type disease struct {
	sickness
	command []string
}

// attackRegistry makes the attempts in an order that the seed chooses, until all were made
// or the time is over.
func attackRegistry(t *testing.T, v *victim, registry *sickRegistry) {
	seed, limit := settings(t)
	if limit == defaultTime {
		limit = registryTime
	}
	var all []disease
	for _, s := range sicknesses {
		all = append(all, disease{s, []string{"pull"}}, disease{s, upgrade})
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	begun := time.Now()
	for i, d := range all {
		if limit > 0 && time.Since(begun) > limit {
			t.Logf("seed %d: %d of %d", seed, i, len(all))
			return
		}
		took, line, err := v.endures(registry, d, fmt.Sprintf("r%d", i))
		if err != nil {
			t.Errorf("the registry %s, %s: %v", d.name, d.command[0], err)
			return
		}
		t.Logf("the registry %s, %s, %v: %s", d.name, d.command[0], took.Round(100*time.Millisecond), line)
	}
	t.Logf("seed %d: all %d", seed, len(all))
}

// endures runs a command that needs a new image while the registry is sick, and again when it
// is well.
func (v *victim) endures(registry *sickRegistry, d disease, tag string) (took time.Duration, line string, err error) {
	v.T.Helper()
	registry.push(v.T, tag)
	before, err := v.passed()
	if err != nil {
		return 0, "", err
	}
	v.configure(tag, false)
	registry.infect(d.sickness)
	begun := time.Now()
	o := v.Kollet(d.command...)
	took = time.Since(begun)
	registry.heal()
	line = lastLine(o)
	if o.Code != 0 || !d.mild {
		if wrong := v.refused(d, tag, o, before); wrong != nil {
			err = fmt.Errorf("%w\nexit status %d: %s", wrong, o.Code, short(o))
		}
	}
	for _, args := range [][]string{d.command, upgrade} {
		if o := v.Kollet(args...); o.Code != 0 {
			return took, line, errors.Join(err, fmt.Errorf("with a healthy registry, %s: exit status %d: %s\nbefore: %s", args[0], o.Code, short(o), line))
		}
	}
	v.tag = tag
	return took, line, errors.Join(err, v.verified(tag), v.goesOn(false))
}

// refused requires that a command failed, said why, and left the node as it was.
func (v *victim) refused(d disease, tag string, o nodetest.Outcome, before map[string]containers.Container) error {
	ref := v.registry.Addr + "/test/tiny:" + tag
	if o.Code != 1 {
		return errors.New("expected exit status 1")
	}
	line := lastLine(o)
	for _, word := range append([]string{"kollet: ", ref, "registry " + v.registry.Addr, "; "}, d.words...) {
		if !strings.Contains(line, word) {
			return fmt.Errorf("%q does not say %q", line, word)
		}
	}
	if strings.Contains(o.All(), "panic") || strings.Contains(o.All(), "defect") {
		return errors.New("kollet panicked")
	}
	if _, err := v.Engine.Image(context.Background(), ref); !errors.Is(err, containers.ErrNotFound) {
		return fmt.Errorf("the engine has the image: %w", err)
	}
	now, err := v.passed()
	if err != nil {
		return err
	}
	for name, c := range before {
		if now[name].ID != c.ID || now[name].PID != c.PID {
			return fmt.Errorf("%s was touched", name)
		}
	}
	return errors.Join(v.whole(v.tag), v.clean())
}

// lastLine is the line with which kollet ended.
func lastLine(o nodetest.Outcome) string {
	lines := strings.Split(strings.TrimSpace(o.Stderr), "\n")
	for _, line := range lines {
		if strings.HasPrefix(line, "kollet: ") {
			return line
		}
	}
	return lines[len(lines)-1]
}
