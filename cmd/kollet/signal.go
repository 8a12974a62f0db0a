package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// cancelOnSignal returns a context that SIGINT or SIGTERM ends. The second of them
// has its usual effect.
func cancelOnSignal(parent context.Context, say func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			say()
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); cancel() }
}

// cancelOnFirstSignal is for commands that must come to an end of their own: after
// the first SIGINT or SIGTERM no other is heeded, and SIGHUP and SIGPIPE never
// are. They are caught rather than ignored, so that programs that kollet starts
// do not inherit it (signal(7)).
func cancelOnFirstSignal(parent context.Context, say func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	lost := make(chan os.Signal, 1) // nobody reads it: what does not fit is dropped
	signal.Notify(lost, syscall.SIGHUP, syscall.SIGPIPE)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		select {
		case <-signals:
			say()
			cancel()
		case <-ctx.Done():
		}
	}()
	// The signals stay caught: the result of what was done is still to be shown.
	return ctx, cancel
}
