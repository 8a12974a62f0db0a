package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// ErrExited means that the process has exited already.
var ErrExited = errors.New("process has exited")

// Process is a process of this machine, not necessarily a child. It is held by a
// pidfd, which unlike a number is never reused for another process
// (pidfd_open(2)). A nil Process is one that has exited.
type Process struct {
	PID int
	fd  int
}

// Open opens a process. ErrExited, wrapped, if there is none, also for a number
// below 1: engines report one for a container that does not run.
func Open(pid int) (*Process, error) {
	if pid < 1 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrExited)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", pid, ErrExited)
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Process{PID: pid, fd: fd}, nil
}

// Close closes the pidfd.
func (p *Process) Close() {
	if p != nil {
		_ = unix.Close(p.fd)
	}
}

// Signal sends a signal. It is not an error if the process has exited.
func (p *Process) Signal(signal unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, signal, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// Exited waits for the process to end, for as long as within, and reports whether
// it has. A zombie has exited: a pidfd becomes readable before the parent reaps
// the process. A negative time means no limit.
func (p *Process) Exited(within time.Duration) (bool, error) {
	if p == nil {
		return true, nil
	}
	deadline := time.Now().Add(within)
	for {
		timeout := -1
		if within >= 0 {
			timeout = max(0, int((time.Until(deadline) + time.Millisecond - 1).Milliseconds()))
		}
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, timeout)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("wait for process %d: %w", p.PID, err)
		}
		if fds[0].Revents&unix.POLLNVAL != 0 { // closed: whether it has exited is unknown
			return false, fmt.Errorf("wait for process %d: %w", p.PID, unix.EBADF)
		}
		return n > 0, nil
	}
}

// Wait returns nil when the process has exited, or the context's error. Unlike
// Ended it uses neither a thread nor polling: an upgrade waits for one process
// of every service.
func (p *Process) Wait(ctx context.Context) error {
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true) // so that os.NewFile adds it to the runtime's poller
	}
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return fmt.Errorf("wait for process %d: %w", p.PID, err)
	}
	defer context.AfterFunc(ctx, func() { _ = file.SetReadDeadline(time.Unix(0, 1)) })()
	var exited bool
	var perr error
	err = conn.Read(func(uintptr) bool {
		exited, perr = p.Exited(0)
		return exited || perr != nil
	})
	if !exited && perr == nil { // the context may have ended before the first look
		exited, perr = p.Exited(0)
	}
	switch {
	case exited || perr != nil:
		return perr
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("wait for process %d: %w", p.PID, err)
}

// KillGroup kills the process group that a process leads. One that leads none, such as a
// command that crun runs in a container, is killed with those of its descendants that are in
// its group. The caller makes sure that the number still means the intended process.
func (h Host) KillGroup(pid int) {
	group, err := unix.Getpgid(pid)
	switch {
	case pid <= 1 || err != nil:
	case group == pid:
		_ = unix.Kill(-group, unix.SIGKILL)
	default:
		for _, member := range h.freeze(pid, group) {
			_ = unix.Kill(member, unix.SIGKILL)
		}
	}
}

// shimNames are how the kernel names the parent of a container's first process: it keeps 15 bytes of
// containerd-shim-runc-v2, with Docker and with containerd. Podman's is the parent of one process: each
// command that is started in a container has another one.
var shimNames = []string{"containerd-shim", "conmon"}

// IsShim reports whether a process looks like the shim of a container.
func (h Host) IsShim(pid int) bool {
	name, err := h.CommandName(pid)
	return err == nil && slices.Contains(shimNames, name)
}

// HasShim reports whether a process is a child of a shim: the first one of a container, a command
// that was started in it, or one whose parent exited while the container or that command ran.
func (h Host) HasShim(pid int) bool {
	parent, err := h.Parent(pid)
	return err == nil && h.IsShim(parent)
}

// freeze stops a process and its descendants in a group, and returns them. A process that is
// stopped starts no others, and does not reap those that have exited: their numbers stay theirs.
func (h Host) freeze(pid, group int) []int {
	frozen := []int{pid}
	_ = unix.Kill(pid, unix.SIGSTOP)
	for found := true; found; {
		found = false
		all, _ := h.Processes()
		for _, other := range all {
			if slices.Contains(frozen, other) {
				continue
			}
			parent, err := h.Parent(other)
			if err != nil || !slices.Contains(frozen, parent) {
				continue
			}
			if g, err := unix.Getpgid(other); err == nil && g == group {
				_ = unix.Kill(other, unix.SIGSTOP)
				frozen, found = append(frozen, other), true
			}
		}
	}
	return frozen
}
