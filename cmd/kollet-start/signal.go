package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// warming is the process group of the warm-up command while it runs.
var warming atomic.Int64

// stopSignals end a waiting container: any signal that may be configured as a
// service's stop signal. 37 is SIGRTMIN+3, the stop signal of images that run
// systemd.
var stopSignals = []syscall.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.Signal(37),
}

// exitOnSignal makes kollet-start exit on a stop signal. The first process of a
// pid namespace would ignore it otherwise, pid_namespaces(7), and a discarded
// container would have to be killed after its grace period.
//
// execve(2) resets handled signals to their defaults and keeps ignored ones
// ignored, so this does not affect the service.
func exitOnSignal() {
	signals := make(chan os.Signal, 1)
	for _, s := range stopSignals {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	go func() {
		s := (<-signals).(syscall.Signal)
		if group := warming.Load(); group != 0 {
			syscall.Kill(-int(group), syscall.SIGKILL)
		}
		os.Exit(128 + int(s))
	}()
}
