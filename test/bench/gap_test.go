package bench

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/machine"
)

// BenchmarkGap measures how long a service is away while it is replaced, in
// four ways that take turns: whatever else happens on the machine hits all of
// them. Each replaces version a by b, then b by a, and so on; the first two
// rounds, in which the files are read for the first time, do not count.
func BenchmarkGap(b *testing.B) {
	engine := machine.Dockerd(b, machine.DockerArgs("--default-runtime=runc"))
	registry := machine.NewRegistry(b)
	program := tinyProgram(b)
	tags := []string{"a", "b"}
	for _, tag := range tags {
		pushTiny(b, registry, program, tag, 0)
	}
	kollet := &gated{node: newNode(b, engine), registry: registry}
	ways := []way{kollet}
	for i, early := range []bool{false, true} {
		ways = append(ways, startByHand(b, engine, registry, 7002+i, early))
	}
	ways = append(ways, startBare(b, program, tags))
	kollet.configure(tags[0])
	kollet.change(string(journal.Committed), "bootstrap")

	report := newReport(engine)
	round := func() (gaps map[string]time.Duration, quiet bool) {
		tags[0], tags[1] = tags[1], tags[0]
		gaps, quiet = map[string]time.Duration{}, true
		for _, w := range ways {
			quiet = awaitQuiet(b) && quiet // the engine has finished what the last one left to it, too
			h := listen(b, w.address())
			w.replace(tags[0])
			gaps[w.name()] = h.gap(b)
		}
		return gaps, quiet
	}
	round()
	round()
	kollet.gaps = nil
	for b.Loop() {
		report.add(round())
	}
	report.Journal = medianGap(kollet.gaps)
	b.ReportMetric(0, "ns/op") // of a whole round: tells nothing
	report.write(b, ways)
}

// startByHand brings up the old version of a container that is replaced by hand.
func startByHand(b *testing.B, engine *machine.Docker, registry *machine.Registry, port int, early bool) *byHand {
	b.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(engine.Socket), client.WithAPIVersionNegotiation())
	check(b, err)
	h := &byHand{b: b, client: c, registry: registry, port: port, early: early}
	puller := newNode(b, engine)
	for _, tag := range []string{"a", "b"} {
		_, err := puller.engine.Pull(context.Background(), registry.Addr+"/"+repository+":"+tag, nil)
		check(b, err)
	}
	h.running = h.create("a")
	h.start()
	b.Cleanup(func() {
		h.remove()
		c.Close()
	})
	return h
}

func startBare(b *testing.B, program string, tags []string) *bare {
	b.Helper()
	code, err := os.ReadFile(program)
	check(b, err)
	p := &bare{b: b, program: map[string]string{}}
	for _, tag := range tags {
		p.program[tag] = program + "-" + tag
		check(b, os.WriteFile(p.program[tag], code, 0o755))
	}
	p.start(tags[0])
	b.Cleanup(p.stop)
	return p
}
