package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// warmUp runs command as the user, for at most limit, and discards its output. This
// brings the service's files into the page cache while the old service still runs.
func warmUp(command []string, user account, env []string, limit time.Duration) error {
	if len(command) == 0 {
		return nil
	}
	program, err := findProgram(command[0], user, env)
	if err != nil {
		return err
	}
	null, err := open(os.DevNull, unix.O_RDWR)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	fd := uintptr(null)
	return runFor(limit, program, command, &syscall.ProcAttr{Env: env, Files: []uintptr{fd, fd, fd}, Sys: &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(user.uid), Gid: uint32(user.gid), Groups: user.groups32()},
	}})
}

// runFor runs a program for at most limit. No process of it is left afterwards.
func runFor(limit time.Duration, program string, argv []string, attr *syscall.ProcAttr) error {
	attr.Sys.Setpgid = true
	pid, err := syscall.ForkExec(program, argv, attr) //nolint:gosec // of the node file, or of the image
	if err != nil {
		return err
	}
	warming.Store(int64(pid))
	late := time.AfterFunc(limit, func() { syscall.Kill(-pid, syscall.SIGKILL) })
	// The group is killed before the process is reaped: while it is a zombie, its
	// pid cannot be reused.
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	inTime := late.Stop()
	warming.Store(0)
	syscall.Kill(-pid, syscall.SIGKILL) // processes that it left behind
	status := wait(pid)
	for wait(-pid) != nil { // the first process of a pid namespace inherits them
	}
	switch {
	case !inTime:
		return fmt.Errorf("killed after %d s", limit/time.Second)
	case status == nil || *status != 0:
		return errors.New("failed")
	}
	return nil
}

// wait waits for a child, or one of a process group, wait4(2). It returns nil if
// there is none.
func wait(pid int) *syscall.WaitStatus {
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, 0, nil)
		if err == nil {
			return &status
		}
		if err != syscall.EINTR {
			return nil
		}
	}
}
