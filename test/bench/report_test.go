package bench

import (
	"bytes"
	"cmp"
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
	Date    time.Time            `json:"date"`
	Where   where                `json:"where"`
	Load    [2]float64           `json:"load"`   // of the last minute, before and after
	Rounds  []map[string]float64 `json:"rounds"` // gaps by way, in order
	Gaps    map[string]spread    `json:"gaps"`
	Ratios  map[string]ratio     `json:"ratios"`  // to the gated upgrade
	Journal journal.Gap          `json:"journal"` // medians of what kollet itself noted
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

func (r *report) add(gaps map[string]time.Duration) {
	round := map[string]float64{}
	for name, gap := range gaps {
		round[name] = ms(gap)
	}
	r.Rounds = append(r.Rounds, round)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *report) of(name string) spread { return spreadOf(r.column(name)) }

func (r *report) column(name string) []float64 {
	var values []float64
	for _, round := range r.Rounds {
		values = append(values, round[name])
	}
	return values
}

// compare fills in what follows from the rounds. The first way is kollet's.
func (r *report) compare(ways []string) {
	r.Gaps, r.Ratios = map[string]spread{}, map[string]ratio{}
	own := r.column(ways[0])
	for _, name := range ways {
		values := r.column(name)
		r.Gaps[name] = spreadOf(values)
		var paired []float64
		for i, v := range values {
			paired = append(paired, v/own[i])
		}
		r.Ratios[name] = ratio{OfMedians: r.Gaps[name].Median / spreadOf(own).Median, Paired: spreadOf(paired).Median}
	}
}

// table is the report for people.
func (r *report) table(ways []string) string {
	var t strings.Builder
	fmt.Fprintf(&t, "| way | gap / gated, of medians | paired by round | median ms | min ms | max ms |\n|---|---|---|---|---|---|\n")
	for _, name := range ways {
		g, q := r.Gaps[name], r.Ratios[name]
		fmt.Fprintf(&t, "| %s | %.2f | %.2f | %.1f | %.1f | %.1f |\n", name, q.OfMedians, q.Paired, g.Median, g.Min, g.Max)
	}
	fmt.Fprintf(&t, "\n%d rounds on %s; %d CPUs, Linux %s, Docker %s, %s; load %.1f before, %.1f after.\n",
		len(r.Rounds), r.Date.Format(time.DateOnly), r.Where.CPUs, r.Where.Kernel, r.Where.Docker, r.Where.Go, r.Load[0], r.Load[1])
	fmt.Fprintf(&t, "In kollet's own eyes, from the stop signal: the old process ended after %.1f ms, the gate was open after %.1f ms, the first probe passed after %.1f ms.\n",
		r.Journal.Ended, r.Journal.Opened, r.Journal.Healthy)
	return t.String()
}

// write leaves the report in build/bench and shows its table.
func (r *report) write(b *testing.B, ways []way) {
	b.Helper()
	r.Load[1] = load()
	var names []string
	for _, w := range ways {
		names = append(names, w.name())
	}
	r.compare(names)
	keepJSON(b, "gap.json", r)
	keep(b, "gap.md", []byte(r.table(names)))
	b.Logf("\n%s", r.table(names))
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

func TestCompare(t *testing.T) {
	r := &report{Rounds: []map[string]float64{{"own": 2, "other": 20}, {"own": 4, "other": 60}, {"own": 10, "other": 10}}}
	r.compare([]string{"own", "other"})
	if want := (spread{Median: 20, Min: 10, Max: 60}); r.Gaps["other"] != want {
		t.Errorf("gaps of other: %+v, want %+v", r.Gaps["other"], want)
	}
	if want := (ratio{OfMedians: 5, Paired: 10}); r.Ratios["other"] != want {
		t.Errorf("ratios of other: %+v, want %+v", r.Ratios["other"], want)
	}
	if even := spreadOf([]float64{4, 1, 3, 2}); cmp.Compare(even.Median, 2.5) != 0 {
		t.Errorf("median of 1 to 4: %v, want 2.5", even.Median)
	}
}
