//go:build faults

package journal

import (
	"os"
	"strconv"
	"syscall"
)

// fault kills this process after the record whose number KOLLET_KILL_AT_RECORD
// holds. Only binaries for the crash tests contain it (tag faults). Every step
// writes to the journal, so the steps themselves need no code for tests.
func fault(count int) {
	if n, err := strconv.Atoi(os.Getenv("KOLLET_KILL_AT_RECORD")); err == nil && n == count {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
