package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distribution/reference"

	"github.com/kollet/kollet/containers"
)

// Arrivals notes when something last arrived from a registry, for pulls at the same time:
// an engine may fetch one image after the other.
type Arrivals struct {
	limit time.Duration

	mutex sync.Mutex
	last  time.Time // with the monotonic clock
}

// NewArrivals returns what ends pulls when nothing has arrived for this long; 0: nothing
// ends them.
func NewArrivals(limit time.Duration) *Arrivals { return &Arrivals{limit: limit} }

func (a *Arrivals) note() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.last = time.Now()
}

// left returns how much longer a pull with this limit may wait.
func (a *Arrivals) left(limit time.Duration) time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return limit - time.Since(a.last)
}

// unpackTime is the limit when all layers have arrived: engines say nothing while they unpack
// them.
const unpackTime = 30 * time.Minute

// watch returns a context that ends when nothing has arrived for too long. complete says that
// all layers have.
func (a *Arrivals) watch(ctx context.Context, complete *atomic.Bool) (watched context.Context, stop func()) {
	a.note()
	ctx, cancel := context.WithCancelCause(ctx)
	if a.limit == 0 {
		return ctx, func() { cancel(nil) }
	}
	var wait func()
	wait = func() {
		limit := a.limit
		if complete.Load() {
			limit = max(limit, unpackTime)
		}
		left := a.left(limit)
		if left <= 0 {
			cancel(errStalled)
		} else if ctx.Err() == nil {
			time.AfterFunc(left, wait)
		}
	}
	time.AfterFunc(a.limit, wait)
	return ctx, func() { cancel(nil) }
}

var errStalled = errors.New("nothing arrives")

// Pull pulls an image. It waits for the registry if the node is patient, because only a
// pull can tell whether it can be reached: the engine has the proxies, mirrors and
// certificates. ErrRegistryUnreachable if that takes too long, or if nothing arrives.
func (n *Node) Pull(ctx context.Context, ref string, arrivals *Arrivals, progress func(containers.Progress)) (image containers.Image, err error) {
	err = n.Await(ctx, n.patience, "the registry of "+ref, func(ctx context.Context) error {
		var complete atomic.Bool
		watched, stop := arrivals.watch(ctx, &complete)
		defer stop()
		image, err = n.Engine.Pull(watched, ref, func(p containers.Progress) {
			arrivals.note()
			complete.Store(p.Total > 0 && p.Done == p.Total)
			progress(p)
		})
		if err != nil && errors.Is(context.Cause(watched), errStalled) {
			return stalledError{ref, arrivals.limit}
		}
		return err
	}, func(err error) bool { return errors.Is(err, containers.ErrRegistryUnreachable) })
	return image, err
}

// stalledError is an ErrRegistryUnreachable that had been reached.
type stalledError struct {
	ref   string
	limit time.Duration
}

func (e stalledError) Error() string {
	registry := "the registry"
	if named, err := reference.ParseNormalizedNamed(e.ref); err == nil {
		registry = "registry " + reference.Domain(named)
	}
	return fmt.Sprintf("pulling image %s: %s has sent nothing for %v; check it and the network, or set images.stall_timeout if it is that slow", e.ref, registry, e.limit)
}

func (e stalledError) Is(target error) bool { return target == containers.ErrRegistryUnreachable }
