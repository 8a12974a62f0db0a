// Package deadline gives up on a container engine that does not answer.
package deadline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kollet/kollet/containers"
)

// Default is how long an engine may take to answer, if nobody says otherwise: much longer
// than a busy one needs.
const Default = 3 * time.Minute

// files is how much longer a call may take that copies or deletes a container's files.
const files = 5

// engine is an engine whose answers are waited for only so long. Pulls and archives, which
// have limits of their own or none, commands and logs take as long as they take.
type engine struct {
	containers.Engine
	limit time.Duration
}

// Limit returns the engine with calls that fail with ErrUnreachable if it does not answer
// within the limit. A container with large files may take five times as long to be created or
// removed, and one that is stopped its grace period longer.
func Limit(e containers.Engine, limit time.Duration) containers.Engine {
	return &engine{e, limit}
}

// call waits for an answer.
func call[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(ctx, limit, errSilent)
	defer cancel()
	answer, err := do(limited)
	// Otherwise the deadline was another one, for example the engine's own.
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(limited), errSilent) {
		err = &silent{err, limit}
	}
	return answer, err
}

// errSilent is why a call is cut off. Docker's client returns it in place of the context's error.
var errSilent error = noAnswer{}

type noAnswer struct{}

func (noAnswer) Error() string        { return "no answer" }
func (noAnswer) Is(target error) bool { return target == context.DeadlineExceeded }

// act waits for an answer that says only that something was done.
func act(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	_, err := call(ctx, limit, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// silent is the error of a call without an answer.
type silent struct {
	err   error
	limit time.Duration
}

func (s *silent) Error() string {
	return fmt.Sprintf("%v: the container engine did not answer within %v; look at its log, and restart it if it hangs", s.err, s.limit)
}

func (s *silent) Unwrap() []error { return []error{containers.ErrUnreachable, s.err} }

func (e *engine) Info(ctx context.Context) (containers.Info, error) {
	return call(ctx, e.limit, e.Engine.Info)
}

func (e *engine) Image(ctx context.Context, ref string) (containers.Image, error) {
	return call(ctx, e.limit, func(ctx context.Context) (containers.Image, error) { return e.Engine.Image(ctx, ref) })
}

func (e *engine) RemoveImage(ctx context.Context, id string) error {
	return act(ctx, files*e.limit, func(ctx context.Context) error { return e.Engine.RemoveImage(ctx, id) })
}

func (e *engine) Create(ctx context.Context, spec containers.Spec) (string, error) {
	return call(ctx, files*e.limit, func(ctx context.Context) (string, error) { return e.Engine.Create(ctx, spec) })
}

func (e *engine) Start(ctx context.Context, id string) error {
	return act(ctx, e.limit, func(ctx context.Context) error { return e.Engine.Start(ctx, id) })
}

func (e *engine) Stop(ctx context.Context, id string, grace time.Duration) error {
	// An engine that waits for what cannot be killed does answer, later.
	return act(ctx, grace+max(e.limit, 2*containers.KillTime), func(ctx context.Context) error { return e.Engine.Stop(ctx, id, grace) })
}

func (e *engine) Update(ctx context.Context, id, name string, restart containers.Restart) error {
	return act(ctx, e.limit, func(ctx context.Context) error { return e.Engine.Update(ctx, id, name, restart) })
}

func (e *engine) Remove(ctx context.Context, id string) error {
	return act(ctx, files*e.limit, func(ctx context.Context) error { return e.Engine.Remove(ctx, id) })
}

func (e *engine) Inspect(ctx context.Context, id string) (containers.Container, error) {
	return call(ctx, e.limit, func(ctx context.Context) (containers.Container, error) { return e.Engine.Inspect(ctx, id) })
}

func (e *engine) List(ctx context.Context, labels map[string]string) ([]containers.Container, error) {
	return call(ctx, e.limit, func(ctx context.Context) ([]containers.Container, error) { return e.Engine.List(ctx, labels) })
}
