package host

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// exitTime is how long a process that was killed may take to exit before it is said to
// hang. It has to be given the processor, and to free its memory: gigabytes of a guest,
// or any process on a busy machine, take longer than a moment.
const exitTime = 2 * time.Second

// exitInterval is the time between two looks at such a process.
const exitInterval = 10 * time.Millisecond

// Killed returns an error if a process was killed and does not exit: something of it
// hangs in the kernel, which no signal ends. Its sockets may accept connections still.
func (h Host) Killed(pid int) error {
	for until := time.Now().Add(exitTime); ; time.Sleep(exitInterval) {
		if err := h.Hangs(pid); err == nil || time.Now().After(until) {
			return err
		}
	}
}

// Hangs is Killed for a caller that has waited for the exit already.
func (h Host) Hangs(pid int) error {
	killed, err := h.anyThread(pid, wasKilled)
	if err != nil || !killed {
		return err
	}
	return fmt.Errorf("process %d was killed and has not exited: it hangs in the kernel, for example on a file system that does not answer (/proc/%[1]d/task/*/stack shows where)", pid)
}

// Hanging returns an error if a process of one of the containers was killed and does not
// exit. Docker takes such a container for one that has exited.
func (h Host) Hanging(containers ...string) error {
	pids, err := h.Processes()
	if err != nil {
		return err
	}
	for _, pid := range pids {
		killed, err := h.anyThread(pid, wasKilled)
		if err != nil || !killed || !h.anyThreadIn(pid, containers) {
			continue // it has exited, or is no such process
		}
		if err := h.Killed(pid); err != nil {
			return err
		}
	}
	return nil
}

// Ending opens the processes of a container that were killed or whose first thread has
// exited, and that still have a thread. Such a thread may be in its last moments, hang in
// them, or run as before: a program may end its first thread alone (pthread_exit(3)).
// Runtimes take all three for a process that has exited.
func (h Host) Ending(container string) ([]*Process, error) {
	pids, err := h.Processes()
	if err != nil {
		return nil, err
	}
	var all []*Process
	for _, pid := range pids {
		if !h.ending(pid, container) {
			continue
		}
		p, err := Open(pid)
		if err != nil && !errors.Is(err, ErrExited) {
			return all, err
		}
		if err == nil && h.ending(pid, container) { // else the number is another process's by now
			all = append(all, p)
		} else {
			p.Close()
		}
	}
	return all, nil
}

func (h Host) ending(pid int, container string) bool {
	// Most processes of a machine are of no interest. Their threads, of which each shim has a
	// dozen, are not looked at.
	if at, err := h.Membership(pid); err == nil && at.outside(container) {
		return false
	}
	leaderless := exited(h.ProcessPath(pid, ""))
	if !leaderless {
		killed, err := h.anyThread(pid, wasKilled)
		if err != nil || !killed {
			return false
		}
	}
	lives, err := h.anyThread(pid, func(status string) bool { return !dead(status) })
	return err == nil && lives && h.anyThreadIn(pid, []string{container})
}

// anyThread reports whether the status file (proc_pid_status(5)) of any thread of a process
// is like this. The file of the process itself has what its first thread has, which may have
// exited before the others.
func (h Host) anyThread(pid int, is func(status string) bool) (bool, error) {
	for _, thread := range h.threads(pid) {
		status, err := os.ReadFile(h.ProcessPath(pid, "task/"+thread+"/status"))
		if err != nil && !Gone(err) {
			return false, fmt.Errorf("read the state of process %d: %w", pid, err)
		}
		if err == nil && is(string(status)) {
			return true, nil
		}
	}
	return false, nil
}

// threads returns the names of a process's threads in /proc; none if it has exited.
func (h Host) threads(pid int) []string {
	dir, err := os.Open(h.ProcessPath(pid, "task"))
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	return names
}

// anyThreadIn reports whether a thread is in the cgroup of a container. The first one may
// have exited, and then is in none.
func (h Host) anyThreadIn(pid int, containers []string) bool {
	for _, thread := range h.threads(pid) {
		m, err := readMembership(h.ProcessPath(pid, "task/"+thread+"/cgroup"))
		if err == nil && slices.ContainsFunc(containers, m.Names) {
			return true
		}
	}
	return false
}

// wasKilled reports whether a thread has been sent SIGKILL and is still there. The kernel
// adds it to the pending signals of each thread, also when the process ends in another way
// (complete_signal and zap_other_threads in the kernel's kernel/signal.c), and a thread takes
// it from there when it next returns from the kernel. The signals of a zombie stay pending
// until it is reaped, and mean nothing.
func wasKilled(status string) bool {
	const sigkill = 1 << (unix.SIGKILL - 1)
	if dead(status) {
		return false
	}
	for _, key := range []string{"SigPnd", "ShdPnd"} { // its own, and those of all threads
		pending, err := strconv.ParseUint(statusField(status, key), 16, 64)
		if err == nil && pending&sigkill != 0 {
			return true
		}
	}
	return false
}

// dead reports whether a thread has exited.
func dead(status string) bool {
	state := statusField(status, "State")
	return state == "" || state[0] == 'Z' || state[0] == 'X'
}

func statusField(status, key string) string {
	for line := range strings.Lines(status) {
		if value, found := strings.CutPrefix(line, key+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
