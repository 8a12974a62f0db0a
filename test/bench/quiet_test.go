package bench

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A replacement is measured right after a moment in which the machine had little
// else to do: what others do on it would be measured too, and more so in the
// ways that need several processes. Which way comes next does not matter to it.
const (
	moment   = 200 * time.Millisecond
	idle     = 0.85
	patience = time.Second
)

// awaitQuiet returns after such a moment, or, with false, when there was none
// for too long.
func awaitQuiet(b *testing.B) bool {
	b.Helper()
	deadline := time.Now().Add(patience)
	for {
		free, all := ticks(b)
		time.Sleep(moment)
		freeNow, allNow := ticks(b)
		if freeNow-free >= idle*(allNow-all) {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// ticks is how long all processors together had nothing to run, and how long
// there have been any, proc_stat(5).
func ticks(b *testing.B) (free, all float64) {
	b.Helper()
	data, err := os.ReadFile("/proc/stat")
	check(b, err)
	var t [8]float64 // user, nice, system, idle, iowait, irq, softirq, steal
	_, err = fmt.Sscanf(string(data), "cpu %g %g %g %g %g %g %g %g", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
	check(b, err)
	for _, v := range t {
		all += v
	}
	return t[3] + t[4], all
}
