package bench

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// scales are how many services a node file has.
var scales = []int{1, 10, 50, 100}

// scale is what kollet took on a node with so many services.
type scale struct {
	Services int                `json:"services"`
	Nothing  run                `json:"nothing"`    // an upgrade that finds nothing to do
	Plan     run                `json:"plan"`       // of an upgrade of all
	One      run                `json:"one"`        // an upgrade of one service
	All      run                `json:"all"`        // an upgrade of all, images present
	ByHand   float64            `json:"by_hand_ms"` // all stopped, removed, created and started, one after another
	Steps    map[string]float64 `json:"steps_ms"`
}

// BenchmarkScale measures kollet on nodes with many tiny services. One round
// says enough: `go test -run '^$' -bench Scale -benchtime 1x`.
func BenchmarkScale(b *testing.B) { onBoth(b, scaleOn) }

func scaleOn(b *testing.B, on engine) {
	registry := tinyRegistry(b)
	var results []scale
	version := ""
	for b.Loop() {
		results = nil
		for _, count := range scales {
			n := newNode(b, on)
			version = n.version()
			results = append(results, measureScale(n, func(first, rest string) { tinies(n, registry, count, first, rest) }, count))
			b.Logf("%+v", results[len(results)-1])
			n.clear()
		}
	}
	b.ReportMetric(0, "ns/op")
	last := results[len(results)-1]
	b.ReportMetric(last.Plan.Wall, "plan-ms")
	b.ReportMetric(last.One.Wall, "one-ms")
	b.ReportMetric(last.All.Wall, "all-ms")
	text := scaleText(results)
	keepJSON(b, "scale-"+on.name+".json", results)
	keep(b, "scale-"+on.name+".md", []byte(text))
	keep(b, "scale-"+on.name+".svg", drawScale(version, results))
	b.Logf("\n%s", text)
}

func measureScale(n *testNode, configure func(first, rest string), count int) scale {
	n.b.Helper()
	configure(oldTag, oldTag)
	n.change(string(journal.Committed), "bootstrap")
	s := scale{Services: count}
	n.change(string(journal.Unchanged), "upgrade")
	s.Nothing = timed(n.b, n.command("upgrade"))
	configure(newTag, oldTag)
	s.One = timed(n.b, n.command("upgrade"))
	configure(newTag, newTag)
	if count == 1 {
		configure(oldTag, oldTag)
	}
	s.Plan = timed(n.b, n.command("plan"))
	s.All = timed(n.b, n.command("upgrade"))
	s.Steps = steps(n.lastJournal())
	begin := time.Now()
	for i := range count {
		n.replaceByHand(tinyName(i))
	}
	s.ByHand = ms(time.Since(begin))
	return s
}

func scaleText(results []scale) string {
	var t strings.Builder
	t.WriteString("| services | nothing to do, ms | plan, ms | upgrade of one, ms | upgrade of all, ms | of all, a service, ms | by hand, a service, ms | kollet's processor time of all, a service, ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range results {
		count := float64(s.Services)
		fmt.Fprintf(&t, "| %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f |\n", s.Services, s.Nothing.Wall, s.Plan.Wall,
			s.One.Wall-ms(stable), s.All.Wall-ms(stable), (s.All.Wall-ms(stable))/count, s.ByHand/count, s.All.CPU/count)
	}
	t.WriteString("\nBy hand: stop, remove, create, start, one service after another, by the engine's API. Upgrades without the stable time of their probes. Steps of an upgrade of all, ms:\n\n| services | check | pull | render | stage | cut over | verify | commit | tidy |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range results {
		fmt.Fprintf(&t, "| %d |", s.Services)
		for _, name := range []string{"check", "pull", "render", "stage", "cut over", "verify", "commit", "tidy"} {
			fmt.Fprintf(&t, " %.0f |", s.Steps[name])
		}
		t.WriteString("\n")
	}
	return t.String()
}

// drawScale draws the curves, each against a scale of its own: what matters is
// whether they are straight.
func drawScale(engine string, results []scale) []byte {
	s := &svg{width: 900, height: 300}
	s.text(10, 20, "start", fmt.Sprintf("Services of a node on %s, and what kollet takes for them. A straight line is a cost that grows with their number.", engine))
	for i, curve := range []struct {
		name string
		of   func(scale) float64
	}{
		{"plan, ms", func(s scale) float64 { return s.Plan.Wall }},
		{"upgrade of one, ms", func(s scale) float64 { return s.One.Wall - ms(stable) }},
		{"upgrade of all, s", func(s scale) float64 { return (s.All.Wall - ms(stable)) / 1000 }},
	} {
		left, bottom, width, height := 50+float64(i)*290, 250.0, 220.0, 190.0
		top := 0.0
		for _, r := range results {
			top = max(top, curve.of(r))
		}
		top = roundUp(top)
		var points [][2]float64
		for _, r := range results {
			x := left + width*float64(r.Services)/float64(scales[len(scales)-1])
			points = append(points, [2]float64{x, bottom - height*curve.of(r)/top})
			s.text(x, bottom+16, "middle", fmt.Sprint(r.Services))
		}
		for _, part := range []float64{0, 0.5, 1} {
			y := bottom - height*part
			s.line(left, y, left+width, y, "#ddd")
			s.text(left-6, y+4, "end", fmt.Sprintf("%g", top*part))
		}
		s.text(left, bottom-height-14, "start", curve.name)
		s.path(points, "#4a7ab5")
		s.text(left+width/2, bottom+34, "middle", "services")
	}
	return s.bytes()
}

// roundUp goes to the next 1, 2 or 5 times a power of ten.
func roundUp(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if v <= m*power {
			return m * power
		}
	}
	return 10 * power
}
