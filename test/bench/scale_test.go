package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

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
	picture, err := drawScale(version, results)
	check(b, err)
	keep(b, "scale-"+on.name+".svg", picture)
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
	t.WriteString("| services | nothing to do, ms | plan, ms | upgrade of one, ms | upgrade of all, ms | of all, per service, ms | manually, per service, ms | kollet's processor time, per service, ms |\n|---|---|---|---|---|---|---|---|\n")
	for _, s := range results {
		count := float64(s.Services)
		fmt.Fprintf(&t, "| %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f |\n", s.Services, s.Nothing.Wall, s.Plan.Wall,
			s.One.Wall-ms(stable), s.All.Wall-ms(stable), (s.All.Wall-ms(stable))/count, s.ByHand/count, s.All.CPU/count)
	}
	t.WriteString("\nManually: stop, remove, create and start one service after another through the engine's API. Upgrades without the stable time of their probes. Steps of an upgrade of all, ms:\n\n| services | check | pull | render | stage | cut over | verify | commit | tidy |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range results {
		fmt.Fprintf(&t, "| %d |", s.Services)
		for _, name := range []string{"check", "pull", "render", "stage", "cut over", "verify", "commit", "tidy"} {
			fmt.Fprintf(&t, " %.0f |", s.Steps[name])
		}
		t.WriteString("\n")
	}
	return t.String()
}

// drawScale draws each curve on its own scale: what matters is whether they are
// straight.
func drawScale(engine string, results []scale) ([]byte, error) {
	var row []*plot.Plot
	for _, curve := range []struct {
		name string
		of   func(scale) float64
	}{
		{"plan, ms", func(s scale) float64 { return s.Plan.Wall }},
		{"upgrade of one, ms", func(s scale) float64 { return s.One.Wall - ms(stable) }},
		{"upgrade of all, s", func(s scale) float64 { return (s.All.Wall - ms(stable)) / 1000 }},
	} {
		p := newPlot()
		p.Title.Text = curve.name
		p.X.Label.Text = "services on " + engine
		p.Y.Min = 0
		var points plotter.XYs
		for _, r := range results {
			points = append(points, plotter.XY{X: float64(r.Services), Y: curve.of(r)})
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", curve.name, err)
		}
		p.Add(plotter.NewGrid(), line, marks)
		row = append(row, p)
	}
	return svgOf(27*vg.Centimeter, 9*vg.Centimeter, [][]*plot.Plot{row})
}
