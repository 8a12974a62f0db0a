package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/machine"
)

// spread of a series of measurements.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return spread{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// ratio compares a way with kollet's: its gap over that of kollet.
type ratio struct {
	OfMedians float64 `json:"of_medians"`
	Paired    float64 `json:"paired"` // median of the ratios within each round
}

// report is what gap.json holds. Times are in milliseconds.
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
	Ratios map[string]ratio  `json:"ratios"` // to the gated upgrade
}

// where is the class of the machine, and what ran on it.
type where struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"` // major and minor
	Docker string `json:"docker"`
	Go     string `json:"go"`
}

func newReport(engine *machine.Docker) *report {
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

// summarize compares the ways in some rounds. The first way is kollet's.
func summarize(rounds []round, ways []string) summary {
	s := summary{Rounds: len(rounds), Gaps: map[string]spread{}, Ratios: map[string]ratio{}}
	if len(rounds) == 0 {
		return s
	}
	for _, name := range ways {
		var values, paired []float64
		for _, n := range rounds {
			values = append(values, n.Gaps[name])
			paired = append(paired, n.Gaps[name]/n.Gaps[ways[0]])
		}
		s.Gaps[name] = spreadOf(values)
		s.Ratios[name] = ratio{OfMedians: s.Gaps[name].Median / s.Gaps[ways[0]].Median, Paired: spreadOf(paired).Median}
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
	fmt.Fprintf(&t, "%s; %d CPUs, Linux %s, Docker %s, %s; load %.1f before, %.1f after.\n",
		r.Date.Format(time.DateOnly), r.Where.CPUs, r.Where.Kernel, r.Where.Docker, r.Where.Go, r.Load[0], r.Load[1])
	r.All.table(&t, "all", ways)
	r.Quiet.table(&t, "quiet", ways)
	fmt.Fprintf(&t, "\nIn kollet's own eyes, from the stop signal: the old process ended after %.1f ms, the gate was open after %.1f ms, the first probe passed after %.1f ms.\n",
		r.Journal.Ended, r.Journal.Opened, r.Journal.Healthy)
	return t.String()
}

func (s summary) table(t *strings.Builder, which string, ways []string) {
	if s.Rounds == 0 {
		fmt.Fprintf(t, "\nNo %s rounds.\n", which)
		return
	}
	fmt.Fprintf(t, "\n| %s rounds: %d | gap over gated, of medians | paired by round | median ms | min ms | max ms |\n|---|---|---|---|---|---|\n", which, s.Rounds)
	for _, name := range ways {
		g, q := s.Gaps[name], s.Ratios[name]
		fmt.Fprintf(t, "| %s | %.2f | %.2f | %.1f | %.1f | %.1f |\n", name, q.OfMedians, q.Paired, g.Median, g.Min, g.Max)
	}
}

// write leaves the report in build/bench and shows it.
func (r *report) write(b *testing.B, ways []way) {
	b.Helper()
	r.Load[1] = load()
	var names []string
	for _, w := range ways {
		names = append(names, w.name())
	}
	r.summarize(names)
	for _, name := range names {
		b.ReportMetric(r.All.Gaps[name].Median, metric(name))
	}
	keepJSON(b, "gap.json", r)
	keep(b, "gap.md", []byte(r.text(names)))
	b.Logf("\n%s", r.text(names))
}

func keepJSON(b *testing.B, name string, value any) {
	b.Helper()
	data, err := json.MarshalIndent(value, "", " ")
	check(b, err)
	keep(b, name, append(data, '\n'))
}

// keep writes a file to build/bench.
func keep(b *testing.B, name string, data []byte) {
	b.Helper()
	dir := filepath.Join(buildDir(), "bench")
	check(b, os.MkdirAll(dir, 0o755))
	check(b, os.WriteFile(filepath.Join(dir, name), data, 0o644))
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

// load is the load average of the last minute, proc_loadavg(5).
func load() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	var l float64
	_, _ = fmt.Sscan(string(data), &l)
	return l
}

func here(engine *machine.Docker) where {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release := strings.SplitN(string(bytes.TrimRight(u.Release[:], "\x00")), ".", 3)
	return where{CPUs: runtime.NumCPU(), Kernel: strings.Join(release[:min(2, len(release))], "."), Docker: engineVersion(engine), Go: runtime.Version()}
}

func TestSummarize(t *testing.T) {
	r := &report{Rounds: []round{
		{Quiet: true, Gaps: map[string]float64{"own": 2, "other": 20}},
		{Quiet: false, Gaps: map[string]float64{"own": 4, "other": 60}},
		{Quiet: true, Gaps: map[string]float64{"own": 10, "other": 10}},
	}}
	r.summarize([]string{"own", "other"})
	for name, c := range map[string]struct {
		got        summary
		wantRounds int
		wantGaps   spread
		wantRatio  ratio
	}{
		"all":   {r.All, 3, spread{Median: 20, Min: 10, Max: 60}, ratio{OfMedians: 5, Paired: 10}},
		"quiet": {r.Quiet, 2, spread{Median: 15, Min: 10, Max: 20}, ratio{OfMedians: 2.5, Paired: 5.5}},
	} {
		if c.got.Rounds != c.wantRounds || c.got.Gaps["other"] != c.wantGaps || c.got.Ratios["other"] != c.wantRatio {
			t.Errorf("%s: %+v, want %d rounds, %+v, %+v", name, c.got, c.wantRounds, c.wantGaps, c.wantRatio)
		}
	}
	if none := summarize(nil, []string{"own"}); none.Rounds != 0 {
		t.Errorf("of no rounds: %+v", none)
	}
}
