package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// keepJSON writes a value to build/bench.
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

// series are durations in milliseconds, by what was measured, as slash-separated
// KEY=VALUE pairs: benchstat compares by them.
type series map[string][]float64

// keepSeries writes series to build/bench in the format of Go's benchmarks, with one
// line per value (https://go.dev/design/14313-benchmark-format).
func keepSeries(b *testing.B, name string, where where, order []string, all series) {
	b.Helper()
	keep(b, name, []byte(seriesText(where, order, all)))
}

func seriesText(where where, order []string, all series) string {
	var t strings.Builder
	fmt.Fprintf(&t, "goos: linux\ngoarch: %s\nengine: %s\nkernel: %s\n", runtime.GOARCH, where.Engine, where.Kernel)
	words := strings.NewReplacer(", ", "-", " ", "-", "--", "")
	for _, what := range order {
		for _, ms := range all[what] {
			fmt.Fprintf(&t, "Benchmark%s 1 %.0f ns/op\n", words.Replace(what), ms*1e6)
		}
	}
	return t.String()
}

func TestSeriesText(t *testing.T) {
	got := seriesText(where{Engine: "docker 1.2", Kernel: "6.1"}, []string{"Gap/way=create, stop", "Gap/way=run --replace"}, series{
		"Gap/way=run --replace": {2}, "Gap/way=create, stop": {1.5, 0.25},
	})
	want := "goos: linux\ngoarch: " + runtime.GOARCH + "\nengine: docker 1.2\nkernel: 6.1\n" +
		"BenchmarkGap/way=create-stop 1 1500000 ns/op\nBenchmarkGap/way=create-stop 1 250000 ns/op\nBenchmarkGap/way=run-replace 1 2000000 ns/op\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// where is the class of the machine, and what ran on it.
type where struct {
	CPUs   int    `json:"cpus"`
	Kernel string `json:"kernel"` // major and minor
	Engine string `json:"engine"`
	Go     string `json:"go"`
}

func here(engine string) where {
	var u unix.Utsname
	_ = unix.Uname(&u)
	release := strings.SplitN(string(bytes.TrimRight(u.Release[:], "\x00")), ".", 3)
	return where{CPUs: runtime.NumCPU(), Kernel: strings.Join(release[:min(2, len(release))], "."), Engine: engine, Go: runtime.Version()}
}

// load is the load average of the last minute, proc_loadavg(5).
func load() float64 {
	data, _ := os.ReadFile("/proc/loadavg")
	var l float64
	_, _ = fmt.Sscan(string(data), &l)
	return l
}
