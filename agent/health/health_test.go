package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// fake runs commands by their first word. In a synctest bubble its time passes at
// once.
type fake struct {
	mu    sync.Mutex
	tries map[string]int
	do    func(ctx context.Context, name string, try int, out io.Writer) (int, error)
}

func (f *fake) Exec(ctx context.Context, id string, cmd containers.Exec) (int, error) {
	if id != "container" || cmd.User != "nova" {
		return 0, fmt.Errorf("unexpected: container %s, user %s", id, cmd.User)
	}
	f.mu.Lock()
	if f.tries == nil {
		f.tries = map[string]int{}
	}
	name := cmd.Argv[0]
	f.tries[name]++
	try := f.tries[name]
	f.mu.Unlock()
	return f.do(ctx, name, try, cmd.Stdout)
}

func (f *fake) target() Target { return Target{Engine: f, ID: "container", User: "nova"} }

// probe returns a probe with the defaults of the node file.
func probe(argv ...string) nodefile.Probe {
	return nodefile.Probe{Exec: argv, Interval: time.Second, StartPeriod: time.Minute, Stable: 2 * time.Second, Timeout: 10 * time.Second}
}

// runaway is a number of tries that only a loop without pauses reaches.
const runaway = 10_000

func TestReady(t *testing.T) {
	for name, c := range map[string]struct {
		within time.Duration
		do     func(ctx context.Context, name string, try int, out io.Writer) (int, error)
		took   time.Duration
		tries  int
		err    string
	}{
		"at once": {time.Minute, func(context.Context, string, int, io.Writer) (int, error) { return 0, nil }, 0, 1, ""},
		"soon": {time.Minute, func(_ context.Context, _ string, try int, _ io.Writer) (int, error) { return 4 - try, nil },
			70 * time.Millisecond, 4, ""}, // pauses of 10, 20 and 40 ms
		"after long": {10 * time.Minute, func(_ context.Context, _ string, try int, _ io.Writer) (int, error) {
			if try >= 300 {
				return 0, nil
			}
			return 1, nil
		}, 1270*time.Millisecond + 292*time.Second, 300, ""}, // 10 ms doubled seven times, then every second
		"never": {10 * time.Minute, func(_ context.Context, _ string, try int, out io.Writer) (int, error) {
			if try > runaway {
				return 0, nil
			}
			fmt.Fprintf(out, "\nnot yet\n  because of %d\n\n", try)
			return 3, nil
		}, 10 * time.Minute, 606, `not healthy within 10m0s: probe "check -a": exit status 3: because of 606`},
		"the engine fails": {time.Second, func(context.Context, string, int, io.Writer) (int, error) { return 0, errors.New("no engine") },
			time.Second, 7, `not healthy within 1s: probe "check -a": no engine`},
		"the last try is cut short": {15 * time.Second, func(ctx context.Context, _ string, try int, _ io.Writer) (int, error) {
			if try == 1 {
				return 0, errors.New("the cause")
			}
			select {
			case <-ctx.Done():
				return 0, ctx.Err()
			case <-time.After(time.Hour):
				return 0, nil
			}
		}, 15 * time.Second, 3, `not healthy within 15s: probe "check -a": context deadline exceeded`},
		"a cause and a cut": {5 * time.Second, func(ctx context.Context, _ string, try int, _ io.Writer) (int, error) {
			if try == 1 {
				return 0, errors.New("the cause")
			}
			<-ctx.Done()
			return 0, ctx.Err()
		}, 5 * time.Second, 2, `not healthy within 5s: probe "check -a": the cause`},
		"no try is finished": {5 * time.Second, func(ctx context.Context, _ string, _ int, _ io.Writer) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		}, 5 * time.Second, 1, `not healthy within 5s: no probe completed`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{do: c.do}
				p := probe("check", "-a")
				p.StartPeriod = c.within
				begun := time.Now()
				err := Ready(t.Context(), f.target(), []nodefile.Probe{p})
				if took := time.Since(begun); took != c.took || f.tries["check"] != c.tries || said(err) != c.err {
					t.Errorf("%d tries in %v: %v; want %d in %v: %s", f.tries["check"], took, err, c.tries, c.took, c.err)
				}
			})
		})
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestStable(t *testing.T) {
	for name, c := range map[string]struct {
		stable, every, tryTakes time.Duration
		failAt                  int
		took                    time.Duration
		tries                   int
		err                     string
	}{
		"stays":              {2 * time.Second, time.Second, 0, 0, 2 * time.Second, 3, ""},
		"not a whole pause":  {2500 * time.Millisecond, time.Second, 0, 0, 2500 * time.Millisecond, 4, ""},
		"shorter than every": {time.Second, time.Minute, 0, 0, time.Second, 2, ""},
		"zero":               {0, time.Second, 0, 0, 0, 1, ""},
		"slow tries":         {5 * time.Second, time.Second, 3 * time.Second, 0, 7 * time.Second, 2, ""},
		"fails at first":     {2 * time.Second, time.Second, 0, 1, 0, 1, `became unhealthy: probe "check": exit status 1`},
		"fails at last":      {2 * time.Second, time.Second, 0, 3, 2 * time.Second, 3, `became unhealthy: probe "check": exit status 1`},
		"a try hangs":        {2 * time.Second, time.Second, time.Hour, 0, 10 * time.Second, 1, `became unhealthy: probe "check": context deadline exceeded`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{do: func(ctx context.Context, _ string, try int, _ io.Writer) (int, error) {
					if err := pause(ctx, c.tryTakes); c.tryTakes > 0 && err != nil {
						return 0, err
					}
					if try == c.failAt {
						return 1, nil
					}
					return 0, nil
				}}
				p := probe("check")
				p.Stable, p.Interval = c.stable, c.every
				begun := time.Now()
				err := Stable(t.Context(), f.target(), []nodefile.Probe{p})
				if took := time.Since(begun); took != c.took || f.tries["check"] != c.tries || said(err) != c.err {
					t.Errorf("%d tries in %v: %v; want %d in %v: %s", f.tries["check"], took, err, c.tries, c.took, c.err)
				}
			})
		})
	}
}

// All probes must pass. The first that fails ends the wait for the others.
func TestSeveralProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{do: func(_ context.Context, name string, try int, _ io.Writer) (int, error) {
			if name == "bad" || name == "late" && try < 3 {
				return 1, nil
			}
			return 0, nil
		}}
		if err := Ready(t.Context(), f.target(), []nodefile.Probe{probe("good"), probe("late")}); err != nil || f.tries["good"] != 1 || f.tries["late"] != 3 {
			t.Errorf("%v, %v", f.tries, err)
		}
		bad := probe("bad")
		bad.StartPeriod = 10 * time.Second
		late := probe("bad")
		late.StartPeriod = time.Hour
		begun := time.Now()
		err := Ready(t.Context(), f.target(), []nodefile.Probe{late, bad})
		if took := time.Since(begun); took != 10*time.Second || !strings.HasPrefix(said(err), "not healthy within 10s: ") {
			t.Errorf("after %v: %v", took, err)
		}
		if err := Ready(t.Context(), f.target(), nil); err != nil {
			t.Errorf("without probes: %v", err)
		}
		before := f.tries["good"]
		if err := Try(t.Context(), f.target(), []nodefile.Probe{bad, probe("good")}); said(err) != `probe "bad": exit status 1` || f.tries["good"] != before+1 {
			t.Errorf("once: %v", err)
		}
		if err := Try(t.Context(), f.target(), []nodefile.Probe{probe("good")}); err != nil {
			t.Error(err)
		}
	})
}

// A cancelled wait does not report an unhealthy service.
func TestCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{do: func(context.Context, string, int, io.Writer) (int, error) { return 1, nil }}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		begun := time.Now()
		err := Ready(ctx, f.target(), []nodefile.Probe{probe("check")})
		if took := time.Since(begun); err != context.Canceled || took != 3*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		f.do = func(context.Context, string, int, io.Writer) (int, error) { return 0, nil }
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if err := Stable(ctx, f.target(), []nodefile.Probe{probe("check")}); err != context.Canceled {
			t.Errorf("stable: %v", err)
		}
	})
}

func TestLastLine(t *testing.T) {
	for text, want := range map[string]string{"": "", "\n \n": "", "one": ": one", "one\ntwo \r\n\n": ": two", "a\n\tb": ": b"} {
		if got := lastLine(text); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

// The kernel keeps the sockets of a process that hangs in it after it was killed.
func TestKilledIsUnhealthy(t *testing.T) {
	proc := t.TempDir()
	thread := filepath.Join(proc, "7", "task", "9")
	if err := os.MkdirAll(thread, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(thread, "status"), []byte("State:\tD (disk sleep)\nSigPnd:\t0000000000000100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := Target{Host: host.Host{Proc: proc}, PID: 7}
	for name, is := range map[string]func(context.Context, Target, []nodefile.Probe) error{"Try": Try, "Ready": Ready, "Stable": Stable} {
		if err := is(t.Context(), target, nil); err == nil || !strings.Contains(err.Error(), "process 7 was killed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
