package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// BenchmarkGate measures what the gate costs a service while it is down: from
// the call of gate.Open until kollet-start has called execve, and until the
// service's first output.
func BenchmarkGate(b *testing.B) {
	c := newContainer(b)
	var execs, outputs []time.Duration
	for b.Loop() {
		check(b, gate.Make(c.gate))
		p := c.start(b, "--user=nova", "--", "busybox", "echo", "runs")
		c.staged(b, p)
		fifo, err := unix.Open(filepath.Join(c.gate, gate.FileFIFO), unix.O_WRONLY|unix.O_CLOEXEC, 0)
		check(b, err)

		begin := time.Now()
		check(b, gate.Open(c.gate))
		readers := []unix.PollFd{{Fd: int32(fifo)}} // POLLERR: the last reader is gone, closed by execve
		for n := 0; n == 0; {
			n, _ = unix.Poll(readers, -1)
		}
		execs = append(execs, time.Since(begin))
		p.says(b, "runs")
		outputs = append(outputs, time.Since(begin))

		unix.Close(fifo)
		p.end(b)
		check(b, os.Remove(filepath.Join(c.gate, gate.FileOpen)))
	}
	reportMedian(b, execs, "exec")
	reportMedian(b, outputs, "output")
}

// BenchmarkBare is the same service started by its parent with no gate.
func BenchmarkBare(b *testing.B) {
	c := newContainer(b)
	var outputs []time.Duration
	for b.Loop() {
		begin := time.Now()
		p := c.startProgram(b, []string{"/bin/busybox", "echo", "runs"}, nil)
		p.says(b, "runs")
		outputs = append(outputs, time.Since(begin))
		p.end(b)
	}
	reportMedian(b, outputs, "output")
}

func reportMedian(b *testing.B, d []time.Duration, what string) {
	slices.Sort(d)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(d[(len(d)-1)*percent/100].Microseconds()), fmt.Sprintf("µs-to-%s-p%d", what, percent))
	}
}
