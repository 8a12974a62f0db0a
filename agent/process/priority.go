package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// Scheduling policies, sched(7).
const (
	schedOther = 0
	schedIdle  = 5
)

// Aside lets a process, and what it starts from now on, run only while the
// machine's processors have nothing else to do. Back takes that back. Neither
// minds a process that has ended.
func Aside(pid int) error { return schedule(pid, schedIdle) }

// Back gives a process that Aside was called for its usual share again.
func Back(pid int) error { return schedule(pid, schedOther) }

// schedule sets the policy of every thread: it is a thread's, not a process's.
func schedule(pid int, policy uint32) error {
	tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
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

// First runs do on a thread that goes before all others of the machine, as far
// as the kernel permits that.
func First(do func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	tid := unix.Gettid()
	usual, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err == nil && unix.Setpriority(unix.PRIO_PROCESS, tid, -20) == nil {
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, tid, 20-usual) }() // getpriority(2): the system call counts from 40 down to 1
	}
	return do()
}
