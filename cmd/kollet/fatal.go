package main

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// abortOnFatal has the runtime end kollet by SIGABRT when it cannot continue: no memory, a stack
// overflow, or a panic in a goroutine. Otherwise it exits with 2, which says that the input was
// bad and that nothing was changed (runtime/debug.SetTraceback, and exit in the runtime's
// panic.go). A core dump would hold secrets, so there is none (PR_SET_DUMPABLE, prctl(2)).
func abortOnFatal() {
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	debug.SetTraceback("crash")
}
