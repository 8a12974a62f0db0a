// Package process follows and signals a process by its pidfd, which unlike a
// number never comes to mean another process (pidfd_open(2)).
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrEnded means that the process has ended already.
var ErrEnded = errors.New("process has ended")

// Process is a process of this machine, not necessarily a child.
type Process struct {
	PID int
	fd  int
}

// Open takes hold of a process. ErrEnded, wrapped, if there is none; a number
// below 1 is what engines give a container that does not run.
func Open(pid int) (*Process, error) {
	if pid < 1 {
		return nil, fmt.Errorf("process %d: %w", pid, ErrEnded)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("process %d: %w", pid, ErrEnded)
	}
	if err != nil {
		return nil, fmt.Errorf("open process %d: %w", pid, err)
	}
	return &Process{PID: pid, fd: fd}, nil
}

// Close lets go of the process.
func (p *Process) Close() { _ = unix.Close(p.fd) }

// Signal sends a signal. It is no error if the process has ended.
func (p *Process) Signal(signal unix.Signal) error {
	err := unix.PidfdSendSignal(p.fd, signal, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal process %d: %w", p.PID, err)
	}
	return nil
}

// Ended waits up to the given time for the process to end, and reports whether
// it has. A pidfd becomes readable when its process ends, before its parent has
// reaped it. A negative time waits for ever.
func (p *Process) Ended(within time.Duration) (bool, error) {
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
		if fds[0].Revents&unix.POLLNVAL != 0 { // closed: nobody knows whether it ended
			return false, fmt.Errorf("wait for process %d: %w", p.PID, unix.EBADF)
		}
		return n > 0, nil
	}
}

// Wait returns nil when the process has ended, or the context's error. Unlike
// Ended it costs nothing meanwhile, neither a thread nor a look now and then:
// an upgrade waits for as many processes as the node has services.
func (p *Process) Wait(ctx context.Context) error {
	fd, err := unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true) // what os.NewFile knows a file by that can be waited for with others
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
	var ended bool
	var looked error
	err = conn.Read(func(uintptr) bool {
		ended, looked = p.Ended(0)
		return ended || looked != nil
	})
	switch {
	case ended || looked != nil:
		return looked
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("wait for process %d: %w", p.PID, err)
}
