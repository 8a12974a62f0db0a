package bench

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/machine"
)

// way is one way of replacing a service that runs by the next version of it.
type way interface {
	name() string
	address() string
	replace(tag string)
}

// Names of the ways.
const (
	gatedUpgrade = "gated upgrade"
	bareProcess  = "bare process"
	removeFirst  = "stop, remove, create, start"
	createFirst  = "create, stop, start"
	taskFirst    = "create task, stop, start"
)

// ports of the services, one for each way that takes turns with others.
var ports = map[string]int{
	gatedUpgrade: 7001, removeFirst: 7002, createFirst: 7003, bareProcess: 7004,
	taskFirst: 7005, dockerCompose: 7006, podmanReplace: 7007,
	ownEntrypoint: 7008, kollaStart: 7009,
}

func addressOf(way string) string { return fmt.Sprintf("127.0.0.1:%d", ports[way]) }

// gated is kollet's: an upgrade to a node file that names another image.
type gated struct {
	*testNode
	registry *machine.Registry
	gaps     []journal.Gap
}

// startGated brings up the old version by kollet.
func startGated(b *testing.B, on engine, registry *machine.Registry) *gated {
	b.Helper()
	g := &gated{testNode: newNode(b, on), registry: registry}
	g.configure(oldTag)
	g.change(string(journal.Committed), "bootstrap")
	return g
}

func (g *gated) name() string    { return gatedUpgrade }
func (g *gated) address() string { return addressOf(gatedUpgrade) }

func (g *gated) replace(tag string) {
	g.configure(tag)
	r := g.change(string(journal.Committed), "upgrade")
	g.gaps = append(g.gaps, r.Gaps["tiny"])
}

func (g *gated) configure(tag string) {
	g.write(node.DefaultNodeFile, fmt.Sprintf(`profile: none
engine: %s
keep_generations: 1
services:
  tiny:
    image: %s
    command: [serve, %q]
    pid: host
    stop_grace_period: 5s
    healthcheck: [{tcp: %q, start_period: 5s, stable: 200ms, interval: 50ms}]
`, g.on.name, imageOf(g.registry, tag), g.address(), g.address()))
}

// bare is the floor: no container at all. A parent tells the process to end,
// waits for it and starts it again.
type bare struct {
	b       *testing.B
	program map[string]string // by tag: files of their own, as images have
	process *exec.Cmd
}

func startBare(b *testing.B, program string) *bare {
	b.Helper()
	code, err := os.ReadFile(program)
	check(b, err)
	p := &bare{b: b, program: map[string]string{}}
	for _, tag := range []string{oldTag, newTag} {
		p.program[tag] = program + "-" + tag
		check(b, os.WriteFile(p.program[tag], code, 0o755))
	}
	p.start(oldTag)
	b.Cleanup(func() {
		_ = p.process.Process.Kill()
		_ = p.process.Wait()
	})
	return p
}

func (p *bare) name() string    { return bareProcess }
func (p *bare) address() string { return addressOf(bareProcess) }

func (p *bare) replace(tag string) {
	p.b.Helper()
	check(p.b, p.process.Process.Signal(syscall.SIGTERM))
	_ = p.process.Wait() // its exit status does not matter
	p.start(tag)
}

func (p *bare) start(tag string) {
	p.b.Helper()
	p.process = exec.Command(p.program[tag], "serve", p.address())
	check(p.b, p.process.Start())
}
