package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// registry is an engine that pulls from a registry.
type registry struct {
	containers.Engine
	pull func(ctx context.Context, arrives func()) error
}

func (r registry) Pull(ctx context.Context, _ string, progress func(containers.Progress)) (containers.Image, error) {
	return containers.Image{ID: "sha256:1"}, r.pull(ctx, func() { progress(containers.Progress{}) })
}

const ref = "registry:5000/kolla/nova:1"

// pulling returns how long a pull takes whose registry sends something every interval, this
// many times, and then nothing more.
func pulling(t *testing.T, limit, patience, interval time.Duration, times int) (took time.Duration, err error) {
	t.Helper()
	n := &Node{Host: host.Real(), patience: patience}
	n.Engine = registry{pull: func(ctx context.Context, arrives func()) error {
		for range times {
			time.Sleep(interval)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			arrives()
		}
		<-ctx.Done()
		return ctx.Err()
	}}
	begun := time.Now()
	_, err = n.Pull(t.Context(), ref, NewArrivals(limit), func(containers.Progress) {})
	return time.Since(begun), err
}

func TestPullStalls(t *testing.T) {
	for name, c := range map[string]struct {
		patience, interval time.Duration
		times              int
		took               time.Duration
		err                string
	}{
		"nothing arrives":             {0, 0, 0, 2 * time.Minute, "pulling image " + ref + ": registry registry:5000 has sent nothing for 2m0s; check it and the network"},
		"it stops after a while":      {0, 90 * time.Second, 3, 6*time.Minute + 30*time.Second, "has sent nothing for 2m0s"},
		"the second part is too late": {0, 3 * time.Minute, 2, 3 * time.Minute, "has sent nothing for 2m0s"},
		"a patient node tries again":  {3 * time.Minute, 0, 0, 4*time.Minute + retryInterval, "waited 3m0s for the registry of " + ref + ": pulling image"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took, err := pulling(t, 2*time.Minute, c.patience, c.interval, c.times)
				if took != c.took || err == nil || !strings.Contains(err.Error(), c.err) || !errors.Is(err, containers.ErrRegistryUnreachable) {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}

// One pull may wait for another that the engine fetches first.
func TestPullWaitsForAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const long = 10 * time.Minute
		arrivals := NewArrivals(time.Minute)
		n := &Node{Host: host.Real()}
		n.Engine = registry{pull: func(ctx context.Context, arrives func()) error {
			for range long / (30 * time.Second) {
				time.Sleep(30 * time.Second)
				arrives()
			}
			return ctx.Err()
		}}
		waits := *n
		waits.Engine = registry{pull: func(ctx context.Context, _ func()) error {
			select {
			case <-time.After(long):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		errs := make(chan error, 2)
		for _, node := range []*Node{n, &waits} {
			go func() {
				_, err := node.Pull(t.Context(), ref, arrivals, func(containers.Progress) {})
				errs <- err
			}()
		}
		if err := errors.Join(<-errs, <-errs); err != nil {
			t.Error(err)
		}
	})
}

// An engine says nothing while it unpacks what has arrived.
func TestPullUnpacks(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{20 * time.Minute: 20 * time.Minute, 24 * time.Hour: unpackTime} {
		synctest.Test(t, func(t *testing.T) {
			n := &Node{Host: host.Real(), Engine: unpacking{takes: takes}}
			begun := time.Now()
			_, err := n.Pull(t.Context(), ref, NewArrivals(time.Minute), func(containers.Progress) {})
			if took := time.Since(begun); took != want || (err != nil) != (want < takes) {
				t.Errorf("takes %v: after %v: %v", takes, took, err)
			}
		})
	}
}

type unpacking struct {
	containers.Engine
	takes time.Duration
}

func (u unpacking) Pull(ctx context.Context, _ string, progress func(containers.Progress)) (containers.Image, error) {
	progress(containers.Progress{Done: 7, Total: 7})
	select {
	case <-ctx.Done():
	case <-time.After(u.takes):
	}
	return containers.Image{}, ctx.Err()
}

// Zero is no limit, and another reason to end is not a stall.
func TestPullWithoutLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		n := &Node{Host: host.Real()}
		n.Engine = registry{pull: func(ctx context.Context, _ func()) error { <-ctx.Done(); return ctx.Err() }}
		if _, err := n.Pull(ctx, ref, NewArrivals(0), func(containers.Progress) {}); errors.Is(err, containers.ErrRegistryUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
