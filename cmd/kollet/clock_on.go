//go:build faults

package main

import (
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unsafe"
)

var looks atomic.Int64

// now is a clock that is set again and again: KOLLET_CLOCK_STEPS has how far it is off at each look,
// such as 3h,-5h,0s, in turn. As with clock_settime(2), durations between two looks stay
// right: the step is in the time of day and not in the monotonic reading. Package time has
// no way to make such a time. Only binaries for tests contain it (tag faults).
func now() time.Time {
	t := time.Now()
	steps := strings.Split(os.Getenv("KOLLET_CLOCK_STEPS"), ",")
	step, err := time.ParseDuration(steps[int(looks.Add(1)-1)%len(steps)])
	if err != nil {
		return t
	}
	fields := (*struct {
		wall     uint64 // a flag, 33 bits of seconds, 30 bits of nanoseconds
		ext      int64
		location *time.Location
	})(unsafe.Pointer(&t)) //nolint:gosec // that is the purpose
	fields.wall += uint64(step/time.Second) << 30 //nolint:gosec // a negative step wraps around, as it should
	return t
}
