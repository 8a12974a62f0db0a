package bench

import (
	"context"
	"testing"
	"time"
)

// The two versions of the tiny service.
const (
	oldTag = "a"
	newTag = "b"
)

// BenchmarkGap measures how long a service is away while it is replaced, in
// several ways that take turns: whatever else happens on the machine hits all of
// them. Each replaces version a by b, then b by a, and so on; the first two
// rounds, in which the files are read for the first time, do not count.
func BenchmarkGap(b *testing.B) { onBoth(b, gapOn) }

func gapOn(b *testing.B, on engine) {
	registry, program := tinyRegistry(b), tinyProgram(b)
	kollet := startGated(b, on, registry)
	for _, tag := range []string{oldTag, newTag} {
		_, err := kollet.engine.Pull(context.Background(), imageOf(registry, tag), nil)
		check(b, err)
	}
	ways := []way{kollet, startBare(b, program)}
	if on.docker != nil {
		ways = append(ways, startDockerByHand(b, on, registry, removeFirst), startDockerByHand(b, on, registry, createFirst),
			startCompose(b, on, registry), startPodman(b, registry))
	} else {
		ways = append(ways, startContainerdByHand(b, on, registry, removeFirst), startContainerdByHand(b, on, registry, createFirst),
			startContainerdByHand(b, on, registry, taskFirst))
	}

	report := newReport(kollet.version())
	tag, next := oldTag, newTag
	round := func() (gaps map[string]time.Duration, quiet bool) {
		tag, next = next, tag
		gaps, quiet = map[string]time.Duration{}, true
		for _, w := range ways {
			quiet = awaitQuiet(b) && quiet // the engine has finished what the last one left to it, too
			h := listen(b, w.address())
			w.replace(tag)
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
	report.write(b, "gap-"+on.name, ways)
}
