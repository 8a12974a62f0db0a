//go:build faults

package journal

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// fault kills this process after the record whose number KOLLET_KILL_AT_RECORD holds.
// With KOLLET_STOP_AT_RECORDS it stops this process after each record, until a test lets
// it continue or kills it. Only binaries for the crash tests contain it (tag faults). Every
// step writes to the journal, so the steps themselves need no code for tests.
func fault(count int) {
	if os.Getenv("KOLLET_STOP_AT_RECORDS") != "" {
		stop()
	}
	if n, err := strconv.Atoi(os.Getenv("KOLLET_KILL_AT_RECORD")); err == nil && n == count {
		_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		select {}
	}
}

// stop stops all threads of this process. The signal is for the calling thread, which
// would continue for a moment if another one got it.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}
