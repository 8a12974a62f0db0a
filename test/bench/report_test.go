package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
)

// report is what the gaps' JSON file holds. Times are in milliseconds.
type report struct {
	Date    time.Time   `json:"date"`
	Where   where       `json:"where"`
	Load    [2]float64  `json:"load"` // of the last minute, before and after
	Rounds  []round     `json:"rounds"`
	All     summary     `json:"all"`
	Quiet   summary     `json:"quiet"`   // of the quiet rounds alone
	Journal journal.Gap `json:"journal"` // medians of what kollet itself noted
}

// round is one replacement in each way.
type round struct {
	Quiet bool               `json:"quiet"` // each began on a quiet machine
	Gaps  map[string]float64 `json:"gaps"`  // by way
}

// summary is what follows from some rounds.
type summary struct {
	Rounds int               `json:"rounds"`
	Gaps   map[string]spread `json:"gaps"`
	Ratios map[string]ratio  `json:"ratios"`
}

// ratio compares a way with the others: its median over theirs.
type ratio struct {
	ToGated float64 `json:"to_gated"`
	ToBare  float64 `json:"to_bare"`
}

func newReport(engine string) *report {
	return &report{Date: time.Now().UTC(), Where: here(engine), Load: [2]float64{load(), 0}}
}

func (r *report) add(gaps map[string]time.Duration, quiet bool) {
	n := round{Quiet: quiet, Gaps: map[string]float64{}}
	for name, gap := range gaps {
		n.Gaps[name] = ms(gap)
	}
	r.Rounds = append(r.Rounds, n)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// gaps of one way, round by round.
func gaps(rounds []round, way string) []float64 {
	var values []float64
	for _, n := range rounds {
		values = append(values, n.Gaps[way])
	}
	return values
}

// summarize compares the ways in some rounds.
func summarize(rounds []round, ways []string) summary {
	s := summary{Rounds: len(rounds), Gaps: map[string]spread{}, Ratios: map[string]ratio{}}
	if len(rounds) == 0 {
		return s
	}
	for _, name := range ways {
		s.Gaps[name] = spreadOf(gaps(rounds, name))
	}
	for name, g := range s.Gaps {
		s.Ratios[name] = ratio{ToGated: g.Median / s.Gaps[gatedUpgrade].Median, ToBare: g.Median / s.Gaps[bareProcess].Median}
	}
	return s
}

// summarize fills in what follows from the rounds.
func (r *report) summarize(ways []string) {
	r.All = summarize(r.Rounds, ways)
	r.Quiet = summarize(slices.DeleteFunc(slices.Clone(r.Rounds), func(n round) bool { return !n.Quiet }), ways)
}

// text is the report for people.
func (r *report) text(ways []string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "%s; %d CPUs, Linux %s, %s, %s; load %.1f before, %.1f after.\n",
		r.Date.Format(time.DateOnly), r.Where.CPUs, r.Where.Kernel, r.Where.Engine, r.Where.Go, r.Load[0], r.Load[1])
	r.All.table(&t, "all", ways)
	if r.Quiet.Rounds < r.All.Rounds {
		r.Quiet.table(&t, "quiet", ways)
	}
	fmt.Fprintf(&t, "\nIn kollet's own eyes, from the stop signal: the old process ended after %.1f ms, the gate was open after %.1f ms, the first probe passed after %.1f ms.\n",
		r.Journal.Ended, r.Journal.Opened, r.Journal.Healthy)
	return t.String()
}

func (s summary) table(t *strings.Builder, which string, ways []string) {
	if s.Rounds == 0 {
		fmt.Fprintf(t, "\nNo %s rounds.\n", which)
		return
	}
	fmt.Fprintf(t, "\n| %s rounds: %d | times bare | times gated | median ms | quartiles ms | min ms | max ms |\n|---|---|---|---|---|---|---|\n", which, s.Rounds)
	for _, name := range ways {
		g, q := s.Gaps[name], s.Ratios[name]
		fmt.Fprintf(t, "| %s | %.2f | %.2f | %.1f | %.1f to %.1f | %.1f | %.1f |\n", name, q.ToBare, q.ToGated, g.Median, g.Low, g.High, g.Min, g.Max)
	}
}

// write leaves the report in build/bench and shows it.
func (r *report) write(b *testing.B, file string, ways []way) {
	b.Helper()
	r.Load[1] = load()
	var names, lines []string
	all := series{}
	for _, w := range ways {
		names = append(names, w.name())
		line := "Gap/way=" + w.name()
		lines = append(lines, line)
		all[line] = gaps(r.Rounds, w.name())
	}
	r.summarize(names)
	for _, name := range names {
		b.ReportMetric(r.All.Gaps[name].Median, metric(name))
	}
	keepJSON(b, file+".json", r)
	keepSeries(b, file+".txt", r.Where, lines, all)
	keep(b, file+".md", []byte(r.text(names)))
	b.Logf("\n%s", r.text(names))
}

func medianGap(gaps []journal.Gap) journal.Gap {
	of := func(field func(journal.Gap) float64) float64 {
		var values []float64
		for _, g := range gaps {
			values = append(values, field(g))
		}
		return spreadOf(values).Median
	}
	return journal.Gap{
		Ended:   of(func(g journal.Gap) float64 { return g.Ended }),
		Opened:  of(func(g journal.Gap) float64 { return g.Opened }),
		Healthy: of(func(g journal.Gap) float64 { return g.Healthy }),
	}
}

// metric is a way's name as a unit of testing.B.
func metric(name string) string {
	return strings.NewReplacer(", ", "-", " ", "-").Replace(name) + "-ms"
}

func TestSummarize(t *testing.T) {
	gaps := func(gated, bare float64) map[string]float64 {
		return map[string]float64{gatedUpgrade: gated, bareProcess: bare}
	}
	r := &report{Rounds: []round{
		{Quiet: true, Gaps: gaps(20, 2)},
		{Quiet: false, Gaps: gaps(60, 4)},
		{Quiet: true, Gaps: gaps(10, 10)},
	}}
	r.summarize([]string{gatedUpgrade, bareProcess})
	for name, c := range map[string]struct {
		got        summary
		wantRounds int
		wantMedian float64
		wantRatio  ratio
	}{
		"all":   {r.All, 3, 20, ratio{ToGated: 1, ToBare: 5}},
		"quiet": {r.Quiet, 2, 15, ratio{ToGated: 1, ToBare: 2.5}},
	} {
		if c.got.Rounds != c.wantRounds || c.got.Gaps[gatedUpgrade].Median != c.wantMedian || c.got.Ratios[gatedUpgrade] != c.wantRatio {
			t.Errorf("%s: %+v, want %d rounds, %v, %+v", name, c.got, c.wantRounds, c.wantMedian, c.wantRatio)
		}
	}
	if none := summarize(nil, []string{gatedUpgrade}); none.Rounds != 0 {
		t.Errorf("of no rounds: %+v", none)
	}
}
