package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/deadline"
)

// Docker's client returns why a call was cut off, and not that its time was over. A Docker that is
// silent is nevertheless told apart from one that does not run.
func TestSilentDocker(t *testing.T) {
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(end) })
	for name, call := range map[string]func(context.Context, containers.Engine) error{
		"info":    func(ctx context.Context, e containers.Engine) error { _, err := e.Info(ctx); return err },
		"inspect": func(ctx context.Context, e containers.Engine) error { _, err := e.Inspect(ctx, "c"); return err },
		"start":   func(ctx context.Context, e containers.Engine) error { return e.Start(ctx, "c") },
		"remove":  func(ctx context.Context, e containers.Engine) error { return e.Remove(ctx, "c") },
	} {
		t.Run(name, func(t *testing.T) {
			engine, err := openEngine("docker", "tcp://"+server.Listener.Addr().String(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer engine.Close()
			err = call(t.Context(), deadline.Limit(engine, 20*time.Millisecond))
			if !errors.Is(err, containers.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want ErrUnreachable and DeadlineExceeded", err)
			}
			if err == nil || !strings.Contains(err.Error(), "the container engine did not answer within") || strings.Contains(err.Error(), "systemctl start") {
				t.Errorf("got %v", err)
			}
		})
	}
}
