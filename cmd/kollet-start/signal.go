package main

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
)

// warming is the process group of the warm-up command while it runs.
var warming atomic.Int64

// endOnSignal ends kollet-start at any of the signals that an engine may be
// configured to stop a service with. Without this a process that is the first
// of its pid namespace would ignore them, pid_namespaces(7), and a discarded
// container would have to be killed after its grace time. The number 37 is
// SIGRTMIN+3, the stop signal of images that run systemd.
//
// execve(2) resets handled signals to their defaults and leaves those ignored
// that were, so the service does not notice.
func endOnSignal() {
	signals := make(chan os.Signal, 1)
	for _, s := range []os.Signal{
		syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.Signal(37),
	} {
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
