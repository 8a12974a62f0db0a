package bench

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/test/machine"
)

// trace is an instance of the kernel's tracer, of this benchmark's own, that
// notes which process runs on which processor, who wakes whom, and when
// processes are told to end, end, and execute programs (Documentation/trace/ftrace.rst, "Instances").
type trace struct {
	b   *testing.B
	dir string
}

// traced are the events that it notes.
var traced = []string{"sched/sched_switch", "sched/sched_waking", "sched/sched_process_exec", "sched/sched_process_exit", "signal/signal_generate"}

func newTrace(b *testing.B) *trace {
	b.Helper()
	fs := machine.Dir(b, "tracefs")
	if err := unix.Mount("tracefs", fs, "tracefs", 0, ""); err != nil {
		b.Fatalf("mount tracefs: %v; the timeline needs a kernel with CONFIG_FTRACE", err)
	}
	t := &trace{b: b, dir: filepath.Join(fs, "instances", "kollet-bench")}
	// A trace that a killed benchmark left would run forever: it belongs to the
	// kernel, not to the test's machine.
	if err := os.Remove(t.dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		b.Fatalf("remove the trace that an earlier benchmark left: %v; does another run?", err)
	}
	check(b, os.Mkdir(t.dir, 0o700))
	b.Cleanup(func() {
		t.set("tracing_on", "0")
		check(b, os.Remove(t.dir)) // resets what it enabled
		check(b, unix.Unmount(fs, 0))
	})
	t.set("tracing_on", "0")
	t.set("trace_clock", "mono")
	t.set("buffer_size_kb", "16384")
	for _, event := range traced {
		t.set("events/"+event+"/enable", "1")
	}
	return t
}

func (t *trace) set(file, value string) {
	t.b.Helper()
	check(t.b, os.WriteFile(filepath.Join(t.dir, file), []byte(value), 0))
}

func (t *trace) start() {
	t.b.Helper()
	t.set("trace", "") // whatever is written empties it
	t.set("tracing_on", "1")
}

// stop returns what was noted.
func (t *trace) stop() []traceEvent {
	t.b.Helper()
	t.set("tracing_on", "0")
	f, err := os.Open(filepath.Join(t.dir, "trace"))
	check(t.b, err)
	defer f.Close()
	var events []traceEvent
	boot := bootTime()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if e, ok := parseTrace(lines.Text(), boot); ok {
			events = append(events, e)
		}
	}
	check(t.b, lines.Err())
	return events
}

// bootTime is when the kernel's monotonic clock was 0: of several looks at both
// clocks, the one that was interrupted least.
func bootTime() (boot time.Time) {
	monotonic := func() time.Duration {
		var now unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
		return time.Duration(now.Nano())
	}
	best := time.Hour
	for range 50 {
		before, now, after := monotonic(), time.Now(), monotonic()
		if after-before < best {
			best, boot = after-before, now.Add(-(before+after)/2)
		}
	}
	return boot
}

// traceEvent is one line of a trace.
type traceEvent struct {
	at     time.Time
	by     string // what the process is called that caused it
	cpu    int
	name   string
	fields map[string]string
}

// traceLine is as in "  <idle>-0  [001] d..2. 12345.678901: sched_switch: prev_comm=…".
var (
	traceLine  = regexp.MustCompile(`^ *(.*)-\d+ +\[(\d+)\] \S+ +(\d+)\.(\d{6}): (\w+): (.*)$`)
	traceField = regexp.MustCompile(`(\w+)=(.*?)(?:$| (?:==> )?\w+=)`)
)

func parseTrace(line string, boot time.Time) (traceEvent, bool) {
	m := traceLine.FindStringSubmatch(line)
	if m == nil {
		return traceEvent{}, false
	}
	cpu, _ := strconv.Atoi(m[2])
	seconds, _ := strconv.ParseInt(m[3], 10, 64)
	micros, _ := strconv.ParseInt(m[4], 10, 64)
	e := traceEvent{at: boot.Add(time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond), by: m[1], cpu: cpu, name: m[5], fields: map[string]string{}}
	rest := m[6]
	for rest != "" { // a value may have spaces in it: it ends where the next name begins
		f := traceField.FindStringSubmatchIndex(rest)
		if f == nil {
			break
		}
		e.fields[rest[f[2]:f[3]]] = strings.TrimSpace(rest[f[4]:f[5]])
		rest = strings.TrimPrefix(strings.TrimSpace(rest[f[5]:]), "==> ")
	}
	return e, true
}

func TestParseTrace(t *testing.T) {
	boot := time.UnixMilli(1000)
	e, ok := parseTrace("          <idle>-0       [001] d..2. 12.000250: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a b next_pid=77 next_prio=120", boot)
	if !ok || e.by != "<idle>" || e.cpu != 1 || e.name != "sched_switch" || e.at.Sub(boot) != 12*time.Second+250*time.Microsecond ||
		e.fields["prev_comm"] != "swapper/1" || e.fields["prev_state"] != "R" || e.fields["next_comm"] != "a b" || e.fields["next_pid"] != "77" {
		t.Errorf("%v %+v", ok, e)
	}
	if _, ok := parseTrace("# tracer: nop", boot); ok {
		t.Error("a comment is taken for an event")
	}
}
