//go:build faults

package journal

import (
	"os"
	"strconv"
	"syscall"
)

// fault kills this process after the record that KOLLET_KILL_AT_RECORD names.
// Only a binary built for the crash tests (tag faults) contains it: the journal
// is the one place that sees every step, so no step needs test code.
func fault(count int) {
	if n, err := strconv.Atoi(os.Getenv("KOLLET_KILL_AT_RECORD")); err == nil && n == count {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
