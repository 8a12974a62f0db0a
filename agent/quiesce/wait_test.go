package quiesce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// answer is what a source says at one time.
type answer struct {
	found []Operation
	err   error
}

func op(n int) Operation {
	return Operation{Subject: fmt.Sprintf("server %d", n), Task: "is spawning"}
}

func TestWait(t *testing.T) {
	silent := errors.New("no answer")
	for name, c := range map[string]struct {
		answers []answer // one after the other; the last one stays
		limit   time.Duration
		want    string // error; empty: none
		waited  time.Duration
		told    []string
	}{
		"idle":          {[]answer{{}}, 10 * time.Minute, "", 0, nil},
		"one, for 4 s":  {[]answer{{found: []Operation{op(1)}}, {found: []Operation{op(1)}}, {}}, 10 * time.Minute, "", 4 * time.Second, []string{"waiting for 1 operation: server 1 is spawning, 10m0s more at most"}},
		"others follow": {[]answer{{found: []Operation{op(1)}}, {found: []Operation{op(1), op(2)}}, {}}, time.Minute, "", 4 * time.Second, []string{"waiting for 1 operation: server 1 is spawning, 1m0s more at most", "waiting for 2 operations: server 1 is spawning; server 2 is spawning, 58s more at most"}},
		"only its time": {[]answer{{found: []Operation{{"server 1", "is spawning, for 7s"}}}, {found: []Operation{{"server 1", "is spawning, for 9s"}}}, {}}, time.Minute, "", 4 * time.Second, []string{"waiting for 1 operation: server 1 is spawning, for 7s, 1m0s more at most"}},
		"too long": {[]answer{{found: []Operation{op(1)}}}, time.Minute, "1 operation: server 1 is spawning; waited 1m0s", time.Minute, []string{
			"waiting for 1 operation: server 1 is spawning, 1m0s more at most",
			"waiting for 1 operation: server 1 is spawning, 30s more at most"}},
		"asked once": {[]answer{{found: []Operation{op(1)}}}, 0, "1 operation: server 1 is spawning", 0, nil},
		"many": {[]answer{{found: []Operation{op(1), op(2), op(3), op(4), op(5), op(6), op(7)}}}, 0,
			"7 operations: server 1 is spawning; server 2 is spawning; server 3 is spawning; server 4 is spawning; server 5 is spawning; and 2 more", 0, nil},
		"an answer missing":  {[]answer{{found: []Operation{op(1)}}, {err: silent}, {}}, time.Minute, "", 4 * time.Second, []string{"waiting for 1 operation: server 1 is spawning, 1m0s more at most", "waiting for an answer: no answer, 58s more at most"}},
		"no answer":          {[]answer{{err: silent}}, 10 * time.Minute, "no answer", 30 * time.Second, []string{"waiting for an answer: no answer, 10m0s more at most"}},
		"no answer, at once": {[]answer{{err: silent}}, 0, "no answer", 0, nil},
		"none in the end":    {[]answer{{found: []Operation{op(1)}}, {found: []Operation{op(1)}}, {err: silent}}, 10 * time.Minute, "no answer", 32 * time.Second, []string{"waiting for 1 operation: server 1 is spawning, 10m0s more at most", "waiting for an answer: no answer, 9m56s more at most"}},
	} {
		t.Run(name, func(t *testing.T) {
			now, asked := noon, 0
			var told []string
			w := Waiting{
				Limit: c.limit, Now: func() time.Time { return now },
				Pause: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil },
				Note:  func(text string) { told = append(told, text) },
			}
			err := w.Wait(t.Context(), func(context.Context) ([]Operation, error) {
				a := c.answers[min(asked, len(c.answers)-1)]
				asked++
				return a.found, a.err
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want || now.Sub(noon) != c.waited || !slices.Equal(told, c.told) {
				t.Errorf("got %q after %v, told %q", got, now.Sub(noon), told)
			}
			busy, isBusy := errors.AsType[*Busy](err)
			if isBusy == errors.Is(err, silent) && err != nil || isBusy && len(busy.Operations) == 0 {
				t.Errorf("busy: %v, %v", isBusy, err)
			}
		})
	}
}

// Two sources that know of one operation list it once.
func TestWaitForSeveralSources(t *testing.T) {
	w := Waiting{Now: time.Now, Pause: Pause, Note: func(string) {}}
	source := func(all ...Operation) Source {
		return func(context.Context) ([]Operation, error) { return all, nil }
	}
	busy, ok := errors.AsType[*Busy](w.Wait(t.Context(), source(op(1)), source(op(1), op(2)), source()))
	if !ok || !slices.Equal(busy.Operations, []Operation{op(1), op(2)}) {
		t.Errorf("got %+v", busy)
	}
}

func TestWaitIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := Waiting{Limit: time.Hour, Now: time.Now, Pause: Pause, Note: func(string) { cancel() }}
	err := w.Wait(ctx, func(context.Context) ([]Operation, error) { return []Operation{op(1)}, nil })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
