package bench

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/journal"
)

// BenchmarkWhole measures whole upgrades of one tiny service and of three, in
// turn, with their images present: from fork to exit of kollet's process. The
// time for which probes have to pass is the same for both, and reported
// separately.
func BenchmarkWhole(b *testing.B) { onBoth(b, wholeOn) }

// whole is what was measured of so many services.
type whole struct {
	Services int                `json:"services"`
	Own      spread             `json:"own_ms"` // without the stable time
	CPU      spread             `json:"cpu_ms"` // kollet's own
	Steps    map[string]float64 `json:"steps_ms"`
}

func wholeOn(b *testing.B, on engine) {
	registry := tinyRegistry(b)
	counts := []int{1, 3}
	nodes := map[int]*testNode{}
	for _, count := range counts {
		n := newNode(b, on)
		// Both nodes' services have the same addresses; they take turns.
		nodes[count] = n
	}
	own, cpu, all := map[int][]float64{}, map[int][]float64{}, map[int]map[string][]float64{1: {}, 3: {}}
	round := func() {
		for _, count := range counts {
			n := nodes[count]
			tinies(n, registry, count, oldTag, oldTag)
			n.change(string(journal.Committed), "bootstrap")
			tinies(n, registry, count, newTag, newTag)
			awaitQuiet(b)
			r := timed(b, n.command("upgrade"))
			own[count] = append(own[count], r.Wall-ms(stable))
			cpu[count] = append(cpu[count], r.CPU)
			for name, took := range steps(n.lastJournal()) {
				all[count][name] = append(all[count][name], took)
			}
			n.clear()
			nodes[count] = newNode(b, on)
		}
	}
	round()
	own, cpu, all = map[int][]float64{}, map[int][]float64{}, map[int]map[string][]float64{1: {}, 3: {}}
	before := load()
	for b.Loop() {
		round()
	}
	b.ReportMetric(0, "ns/op")
	var results []whole
	for _, count := range counts {
		w := whole{Services: count, Own: spreadOf(own[count]), CPU: spreadOf(cpu[count]), Steps: map[string]float64{}}
		for name, took := range all[count] {
			w.Steps[name] = spreadOf(took).Median
		}
		results = append(results, w)
		b.ReportMetric(w.Own.Median, fmt.Sprintf("own-%d-ms", count))
	}
	text := wholeText(results) + fmt.Sprintf("\n%s; load %.1f before, %.1f after; %d upgrades of each.\n", nodes[1].version(), before, load(), len(own[1]))
	keepJSON(b, "whole-"+on.name+".json", results)
	keep(b, "whole-"+on.name+".md", []byte(text))
	b.Logf("\n%s", text)
}

func wholeText(results []whole) string {
	var t strings.Builder
	t.WriteString("| median ms |")
	for _, w := range results {
		fmt.Fprintf(&t, " %d services |", w.Services)
	}
	t.WriteString("\n|---|" + strings.Repeat("---|", len(results)) + "\n")
	row := func(name string, of func(whole) string) {
		fmt.Fprintf(&t, "| %s |", name)
		for _, w := range results {
			t.WriteString(" " + of(w) + " |")
		}
		t.WriteString("\n")
	}
	for _, step := range []string{"check", "pull", "render", "stage", "cut over", "verify", "commit", "tidy"} {
		row(step, func(w whole) string { return fmt.Sprintf("%.0f", w.Steps[step]) })
	}
	row("whole upgrade, without the stable time", func(w whole) string {
		return fmt.Sprintf("%.0f (%.0f to %.0f)", w.Own.Median, w.Own.Min, w.Own.Max)
	})
	row("processor time of kollet itself", func(w whole) string { return fmt.Sprintf("%.0f", w.CPU.Median) })
	return t.String()
}
