package bench

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// BenchmarkTimeline traces upgrades of one tiny service, and restarts of a bare
// process in turn with them, and tells where each millisecond of their gaps
// goes. The upgrade with the median gap is drawn, in build/bench; the pictures in
// docs are copies.
func BenchmarkTimeline(b *testing.B) { onBoth(b, timelineOn) }

func timelineOn(b *testing.B, on engine) {
	registry, program := tinyRegistry(b), tinyProgram(b)
	ways := []way{startGated(b, on, registry), startBare(b, program)}
	kollet := ways[0].(*gated)
	tracer := newTrace(b)
	all := map[string][]parts{}
	var upgrades []upgradeTrace
	tag, next := oldTag, newTag
	round := func() {
		tag, next = next, tag
		for i, w := range ways {
			awaitQuiet(b)
			h := listen(b, w.address())
			tracer.start()
			u := upgradeTrace{started: time.Now()}
			w.replace(tag)
			u.ended = time.Now()
			last, first := h.replaced(b)
			u.events = tracer.stop()
			comm, path := benched, "/bin/"+benched
			if i > 0 {
				comm, path = benched+"-"+next, "/"+benched+"-"+tag // a bare process's file has its tag in its name
			}
			var err error
			u.moments, err = findMoments(u.events, last, first, comm, path)
			check(b, err)
			all[w.name()] = append(all[w.name()], u.moments.parts())
			if i == 0 {
				u.records = kollet.lastJournal()
				upgrades = append(upgrades, u)
			}
		}
	}
	round()
	round()
	upgrades, all = nil, map[string][]parts{}
	for b.Loop() {
		round()
	}
	b.ReportMetric(0, "ns/op")
	medians, names := map[string]parts{}, []string{}
	for _, w := range ways {
		names = append(names, w.name())
		medians[w.name()] = medianParts(all[w.name()])
	}
	table := partsTable(names, medians)
	keep(b, "timeline-"+on.name+".md", []byte(table))
	keepJSON(b, "timeline-"+on.name+".json", all)
	b.Logf("\n%s", table)
	slices.SortFunc(upgrades, func(x, y upgradeTrace) int { return int(1000 * (x.moments.parts().Total - y.moments.parts().Total)) })
	typical := upgrades[(len(upgrades)-1)/2]
	picture, err := typical.draw(kollet.version())
	check(b, err)
	keep(b, "timeline-"+on.name+".svg", picture)
	keep(b, "timeline-"+on.name+".txt", []byte(typical.text()))
}

// upgradeTrace is all that is known of one upgrade.
type upgradeTrace struct {
	started, ended time.Time // of kollet's process
	records        []journal.Record
	events         []traceEvent
	moments        moments
}

// lastJournal is that of the last upgrade.
func (n *testNode) lastJournal() []journal.Record {
	n.b.Helper()
	dir := filepath.Join(n.root, node.StateDir, "journal")
	numbers, err := journal.List(dir)
	check(n.b, err)
	records, err := journal.Read(dir, numbers[len(numbers)-1])
	check(n.b, err)
	return records
}
