package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// left returns how much longer pulls may wait.
func (a *Arrivals) left() time.Duration {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.limit - time.Since(a.last)
}

// watch returns a context that ends when nothing has arrived for too long.
func (a *Arrivals) watch(ctx context.Context) (watched context.Context, stop func()) {
	a.note()
	ctx, cancel := context.WithCancelCause(ctx)
	if a.limit == 0 {
		return ctx, func() { cancel(nil) }
	}
	var wait func()
	wait = func() {
		left := a.left()
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
		watched, stop := arrivals.watch(ctx)
		defer stop()
		image, err = n.Engine.Pull(watched, ref, func(p containers.Progress) {
			arrivals.note()
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
