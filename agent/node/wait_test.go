package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
)

func TestAwait(t *testing.T) {
	notYet, never := errors.New("not yet"), errors.New("never")
	for name, c := range map[string]struct {
		errs    []error // of one try after the other; the last one's stays
		limit   time.Duration
		cancel  bool // during the first try
		want    string
		tries   int
		waiting bool // it says that it waits
	}{
		"at once":                     {errs: []error{nil}, limit: time.Minute, tries: 1},
		"later":                       {errs: []error{notYet, notYet, nil}, limit: time.Minute, tries: 3, waiting: true},
		"not worth waiting":           {errs: []error{never}, limit: time.Minute, want: "never", tries: 1},
		"another error while waiting": {errs: []error{notYet, never}, limit: time.Minute, want: "never", tries: 2, waiting: true},
		"too late":                    {errs: []error{notYet}, limit: 100 * time.Millisecond, want: "waited 100ms for a miracle: not yet", tries: 2, waiting: true},
		"not to wait":                 {errs: []error{notYet}, want: "not yet", tries: 1},
		"interrupted":                 {errs: []error{notYet}, limit: time.Minute, cancel: true, want: "interrupted while waiting for a miracle: context canceled", tries: 1},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var told []string
			n := &Node{Host: host.Real(), Report: func(e Event) { told = append(told, e.Text) }}
			tries := 0
			err := n.Await(ctx, c.limit, "a miracle", func(context.Context) error {
				err := c.errs[min(tries, len(c.errs)-1)]
				tries++
				if c.cancel {
					cancel()
				}
				return err
			}, func(err error) bool { return errors.Is(err, notYet) })
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want || tries != c.tries {
				t.Errorf("%q after %d tries, want %q after %d", got, tries, c.want, c.tries)
			}
			if c.waiting != (len(told) == 1 && strings.HasPrefix(told[0], "waiting for a miracle, ")) {
				t.Errorf("told %q", told)
			}
		})
	}
}
