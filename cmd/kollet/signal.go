package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// cancelOnSignal returns a context that SIGINT or SIGTERM cancels. A second signal
// has its default effect.
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

// cancelOnFirstSignal is for commands that must not be killed: the first SIGINT or
// SIGTERM cancels the context and later ones have no effect, like SIGHUP and
// SIGPIPE. They are caught rather than ignored, because programs that kollet
// starts would inherit ignored signals (signal(7)).
func cancelOnFirstSignal(parent context.Context, say func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	lost := make(chan os.Signal, 1) // never read: signals that do not fit are dropped
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
	// The signals stay caught: the result must still be shown.
	return ctx, cancel
}
