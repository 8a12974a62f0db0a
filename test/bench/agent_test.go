package bench

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/tiny/image"
)

// figure is one that is kept beside the gaps.
type figure struct {
	Unit   string     `json:"unit"`
	Count  int        `json:"count"`
	Spread spread     `json:"spread"`
	Load   [2]float64 `json:"load"`
}

// figureOf sums up what was measured, and reports it.
func figureOf(b *testing.B, what, unit string, values []float64, loadBefore float64) figure {
	s := spreadOf(values)
	b.ReportMetric(s.Median, what+"-"+unit)
	b.ReportMetric(s.Min, what+"-min-"+unit)
	b.ReportMetric(s.Max, what+"-max-"+unit)
	return figure{unit, len(values), s, [2]float64{loadBefore, load()}}
}

// BenchmarkNothingToDo measures an upgrade that finds nothing to do, as a whole
// process, from fork to exit; and, in turn with it, `kollet version`, which is
// what starting the program takes.
func BenchmarkNothingToDo(b *testing.B) {
	b.Run("tiny", func(b *testing.B) {
		onBoth(b, func(b *testing.B, on engine) {
			registry := tinyRegistry(b)
			n := newNode(b, on)
			tinies(n, registry, 3, oldTag, oldTag)
			n.change(string(journal.Committed), "bootstrap")
			nothingToDo(b, n, "nothing-tiny-"+on.name)
		})
	})
	b.Run("compute", func(b *testing.B) {
		onBothComputes(b, func(b *testing.B, c *compute) {
			nothingToDo(b, c.testNode, "nothing-compute-"+c.on.name)
		})
	})
}

func nothingToDo(b *testing.B, n *testNode, name string) {
	n.change(string(journal.Unchanged), "upgrade")
	before := load()
	var upgrades, versions []float64
	for b.Loop() {
		for range 10 {
			versions = append(versions, timed(b, n.command("version")).Wall)
			upgrades = append(upgrades, timed(b, n.command("upgrade")).Wall)
		}
	}
	b.ReportMetric(0, "ns/op")
	figures := map[string]figure{}
	for what, values := range map[string][]float64{"upgrade": upgrades, "version": versions} {
		figures[what] = figureOf(b, what, "ms", values, before)
	}
	keepJSON(b, name+".json", figures)
}

// ballast is how large the images are whose pull an upgrade's memory is
// measured with.
const ballast = 100 << 20

// BenchmarkMemory measures the peak of kollet's resident memory in an upgrade of
// three services that pulls their image of 100 MiB.
func BenchmarkMemory(b *testing.B) { onBoth(b, memoryOn) }

func memoryOn(b *testing.B, on engine) {
	registry := tinyRegistry(b)
	n := newNode(b, on)
	tinies(n, registry, 3, oldTag, oldTag)
	n.change(string(journal.Committed), "bootstrap")
	before := load()
	var peaks []float64
	for b.Loop() {
		tag := fmt.Sprintf("large-%d", len(peaks))
		b.StopTimer()
		image.Image{Tag: tag, Program: benched, Ballast: ballast}.Push(b, registry.Addr, repository)
		b.StartTimer()
		tinies(n, registry, 3, tag, tag)
		peaks = append(peaks, peakOf(b, n.command("upgrade")))
	}
	b.ReportMetric(0, "ns/op")
	keepJSON(b, "memory-"+on.name+".json", figureOf(b, "peak", "MiB", peaks, before))
}

// peakOf runs a command and returns the peak of its resident memory in MiB:
// VmHWM of proc_pid_status(5), which only grows, looked at until the end. The
// maximum of getrusage(2) is of no use here: a program that Go starts has for a
// moment the memory of its parent, and the maximum counts that.
func peakOf(b *testing.B, cmd *exec.Cmd) float64 {
	b.Helper()
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	check(b, cmd.Start())
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	peak := 0.0
	for {
		if now := highWater(cmd.Process.Pid); now > 0 {
			peak = now
		}
		select {
		case err := <-done:
			if err != nil {
				b.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out.String())
			}
			return peak
		case <-time.After(time.Millisecond):
		}
	}
}

// highWater is a process's VmHWM in MiB; 0 when it has ended.
func highWater(pid int) float64 {
	data, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

// BenchmarkSize reports the sizes of the programs; their limits are tests beside
// them.
func BenchmarkSize(b *testing.B) {
	for _, name := range []string{"kollet", "kollet-start"} {
		info, err := os.Stat(program(b, name))
		check(b, err)
		b.ReportMetric(float64(info.Size())/(1<<20), name+"-MiB")
	}
	b.ReportMetric(0, "ns/op")
}
