package rolling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
)

// workers use the cloud all the time, as users and operators do: each makes a server,
// moves it, takes a snapshot of it and deletes it.
type workers struct {
	t     testing.TB
	cloud *control
	stop  context.CancelFunc
	ended <-chan struct{} // when stop was called
	group sync.WaitGroup

	mu   sync.Mutex
	done []operation
}

// operation is one request that ended.
type operation struct {
	kind, server string
	begun        time.Time
	took         time.Duration
	err          error
}

// start lets some workers begin. They end before the cloud does, also if the test fails.
func start(t testing.TB, c *control, count int) *workers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &workers{t: t, cloud: c, stop: cancel, ended: ctx.Done()}
	t.Cleanup(w.end)
	for i := range count {
		w.group.Go(func() { w.work(i) })
	}
	return w
}

// work ends with a deleted server.
func (w *workers) work(number int) {
	ctx := context.Background() // an operation that has begun is seen to its end
	for round := 1; !w.stopped(); round++ {
		name := fmt.Sprintf("worker-%d-%d", number, round)
		var s server
		if !w.do("create", name, func() (err error) { s, err = w.cloud.create(ctx, name, ""); return err }) {
			if s.ID != "" {
				_ = w.cloud.remove(ctx, s.ID)
			}
			continue
		}
		// An operator moves servers to nodes that are in service.
		if hosts, err := w.cloud.hosts(ctx); err == nil && len(hosts) == 2 {
			w.do("migrate", name, func() error { return w.cloud.migrate(ctx, s.ID) })
		}
		w.do("snapshot", name, func() error { return w.cloud.snapshot(ctx, s.ID, name) })
		w.do("delete", name, func() error { return w.cloud.remove(ctx, s.ID) })
	}
}

func (w *workers) stopped() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// do runs and records one operation.
func (w *workers) do(kind, server string, run func() error) bool {
	begun := time.Now()
	err := run()
	o := operation{kind, server, begun, time.Since(begun), err}
	w.mu.Lock()
	w.done = append(w.done, o)
	w.mu.Unlock()
	if err != nil {
		w.t.Logf("%s  %s of %s failed after %.0f s: %v", begun.Format("15:04:05"), kind, server, o.took.Seconds(), err)
	}
	return err == nil
}

// end lets the workers finish what they have begun.
func (w *workers) end() {
	w.stop()
	w.group.Wait()
}

// await waits until each kind of operation has succeeded that many times since a time.
func (w *workers) await(count int, since time.Time) {
	w.t.Helper()
	for until := time.Now().Add(cloud.Patience); ; time.Sleep(time.Second) {
		got := w.count(func(o operation) bool { return o.err == nil && o.begun.After(since) })
		if !slices.ContainsFunc(kinds, func(kind string) bool { return got[kind] < count }) {
			return
		}
		if time.Now().After(until) {
			w.t.Fatalf("operations that succeeded: %v", got)
		}
	}
}

var kinds = []string{"create", "migrate", "snapshot", "delete"}

func (w *workers) count(match func(operation) bool) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := map[string]int{}
	for _, o := range w.done {
		if match(o) {
			got[o.kind]++
		}
	}
	return got
}

// failed are the operations that began and failed. A migration for which there is no
// host did not begin: the only other node was just disabled.
func failed(o operation) bool { return o.err != nil && !refused(o) }

func refused(o operation) bool { return o.kind == "migrate" && errors.Is(o.err, errNoHost) }

func (w *workers) report() string {
	var b strings.Builder
	for what, match := range map[string]func(operation) bool{
		"succeeded": func(o operation) bool { return o.err == nil }, "failed": failed, "refused, no host": refused,
	} {
		fmt.Fprintf(&b, "%s: %v\n", what, w.count(match))
	}
	return b.String()
}
