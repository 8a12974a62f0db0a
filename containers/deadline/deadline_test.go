package deadline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/deadline"
)

// hanging is an engine that never answers.
type hanging struct{ containers.Engine }

func wait(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("doing it: %w", ctx.Err())
}

func (hanging) Info(ctx context.Context) (containers.Info, error) {
	return containers.Info{}, wait(ctx)
}

func (hanging) Image(ctx context.Context, _ string) (containers.Image, error) {
	return containers.Image{}, wait(ctx)
}

func (hanging) RemoveImage(ctx context.Context, _ string) error { return wait(ctx) }

func (hanging) Create(ctx context.Context, _ containers.Spec) (string, error) { return "", wait(ctx) }

func (hanging) Start(ctx context.Context, _ string) error { return wait(ctx) }

func (hanging) Stop(ctx context.Context, _ string, _ time.Duration) error { return wait(ctx) }

func (hanging) Update(ctx context.Context, _, _ string, _ containers.Restart) error { return wait(ctx) }

func (hanging) Remove(ctx context.Context, _ string) error { return wait(ctx) }

func (hanging) Inspect(ctx context.Context, _ string) (containers.Container, error) {
	return containers.Container{}, wait(ctx)
}

func (hanging) List(ctx context.Context, _ map[string]string) ([]containers.Container, error) {
	return nil, wait(ctx)
}

var calls = map[string]struct {
	do    func(context.Context, containers.Engine) error
	takes time.Duration
}{
	"info":         {func(ctx context.Context, e containers.Engine) error { _, err := e.Info(ctx); return err }, time.Minute},
	"image":        {func(ctx context.Context, e containers.Engine) error { _, err := e.Image(ctx, "i"); return err }, time.Minute},
	"remove image": {func(ctx context.Context, e containers.Engine) error { return e.RemoveImage(ctx, "i") }, 5 * time.Minute},
	"create": {func(ctx context.Context, e containers.Engine) error {
		_, err := e.Create(ctx, containers.Spec{})
		return err
	}, 5 * time.Minute},
	"start":   {func(ctx context.Context, e containers.Engine) error { return e.Start(ctx, "c") }, time.Minute},
	"stop":    {func(ctx context.Context, e containers.Engine) error { return e.Stop(ctx, "c", 30*time.Second) }, 90 * time.Second},
	"update":  {func(ctx context.Context, e containers.Engine) error { return e.Update(ctx, "c", "n", "no") }, time.Minute},
	"remove":  {func(ctx context.Context, e containers.Engine) error { return e.Remove(ctx, "c") }, 5 * time.Minute},
	"inspect": {func(ctx context.Context, e containers.Engine) error { _, err := e.Inspect(ctx, "c"); return err }, time.Minute},
	"list":    {func(ctx context.Context, e containers.Engine) error { _, err := e.List(ctx, nil); return err }, time.Minute},
}

func TestSilentEngine(t *testing.T) {
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				err := c.do(t.Context(), deadline.Limit(hanging{}, time.Minute))
				if took := time.Since(begun); took != c.takes {
					t.Errorf("it took %v, want %v", took, c.takes)
				}
				if !errors.Is(err, containers.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not ErrUnreachable", err)
				}
				if want := fmt.Sprintf("did not answer within %v", c.takes); !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say that it %s", err, want)
				}
			})
		})
	}
}

// An engine's error that a deadline of its own has passed is an answer.
func TestEnginesDeadline(t *testing.T) {
	err := deadline.Limit(impatient{}, time.Minute).Start(t.Context(), "c")
	if errors.Is(err, containers.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the engine's deadline", err)
	}
}

type impatient struct{ containers.Engine }

func (impatient) Start(context.Context, string) error {
	return fmt.Errorf("start the shim: %w", context.DeadlineExceeded)
}

// A caller that gives up earlier gets its own error.
func TestCallersDeadline(t *testing.T) {
	for name, c := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := c.do(ctx, deadline.Limit(hanging{}, time.Minute))
				if errors.Is(err, containers.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the caller's deadline", err)
				}
			})
		})
	}
}
