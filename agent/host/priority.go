package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Scheduling policies, sched(7).
const (
	schedOther = 0
	schedIdle  = 5
)

// Deprioritize makes a process, and every process that it starts from now on,
// run only when a CPU would be idle. It is not an error if the process has exited.
func (h Host) Deprioritize(pid int) error { return h.schedule(pid, schedIdle) }

// Restore reverts Deprioritize. It is not an error if the process has exited.
func (h Host) Restore(pid int) error { return h.schedule(pid, schedOther) }

// schedule sets the policy of every thread: each thread has its own.
func (h Host) schedule(pid int, policy uint32) error {
	tasks, err := os.ReadDir(h.ProcessPath(pid, "task"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("schedule process %d: %w", pid, err)
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		attr, err := unix.SchedGetAttr(tid, 0)
		if err == nil && attr.Policy != policy {
			attr.Policy = policy
			err = unix.SchedSetAttr(tid, attr, 0)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("schedule process %d: %w", pid, err)
		}
	}
	return nil
}

// RunUrgent runs do on a thread with the highest priority that the kernel grants.
func RunUrgent(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	usual, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err == nil && unix.Setpriority(unix.PRIO_PROCESS, tid, -20) == nil {
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, tid, 20-usual) }() // the system call returns 40 to 1 for -20 to 19, getpriority(2)
	}
	return do()
}
