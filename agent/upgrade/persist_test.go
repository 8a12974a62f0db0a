package upgrade

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPersist(t *testing.T) {
	away, gone := errors.New("the engine does not answer"), errors.New("its volume is gone")
	for name, c := range map[string]struct {
		answers []error
		timeout time.Duration
		want    error
		took    time.Duration
	}{
		"succeeds":              {[]error{nil}, time.Hour, nil, 0},
		"the engine comes back": {[]error{away, away, nil}, time.Hour, nil, 2 * time.Second},
		"it stays away":         {[]error{away, away, away}, time.Hour, away, 2 * time.Second},
		"the last reason":       {[]error{away, away, gone}, time.Hour, gone, 2 * time.Second},
		"no time is left":       {[]error{gone}, time.Second / 2, gone, time.Second / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				began, n := time.Now(), 0
				err := persist(ctx, func() error {
					n++
					return c.answers[n-1]
				})
				if !errors.Is(err, c.want) || n != len(c.answers) || time.Since(began) != c.took {
					t.Errorf("got %v after %d tries and %v", err, n, time.Since(began))
				}
			})
		})
	}
}
