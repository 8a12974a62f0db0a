package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// interrupts end a command. By default a Go program that receives the last two exits
// with status 2, which means invalid input.
var interrupts = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGABRT}

// cancelOnSignal returns a context that an interrupt cancels. A second signal has its
// default effect.
func cancelOnSignal(parent context.Context, say func()) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, interrupts...)
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

// cancelOnFirstSignal is for commands that must not be killed or suspended, because a
// service may be away: the first interrupt cancels the context and later ones have no
// effect, like SIGHUP, SIGPIPE and SIGTSTP. They are caught rather than ignored, because
// programs that kollet starts would inherit ignored signals (signal(7)). SIGTTOU has to
// be ignored, or a write to the terminal would be repeated for as long as kollet is in
// the background (tcsetpgrp(3)).
func cancelOnFirstSignal(parent context.Context, say func(string)) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	lost := make(chan os.Signal, 1) // never read: signals that do not fit are dropped
	signal.Notify(lost, syscall.SIGHUP, syscall.SIGPIPE)
	signal.Ignore(syscall.SIGTTOU)
	suspensions := make(chan os.Signal, 1)
	signal.Notify(suspensions, syscall.SIGTSTP)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, interrupts...)
	go func() {
		for {
			select {
			case <-suspensions:
				say("not suspended: services may be away until this command ends")
			case <-signals:
				say("interrupted; stopping")
				cancel()
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	// The signals stay caught: the result must still be shown.
	return ctx, cancel
}
