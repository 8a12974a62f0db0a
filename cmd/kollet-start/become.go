package main

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// as runs do on a separate thread, where become changes only that thread to the
// user: in the kernel, credentials belong to threads, credentials(7). So do can
// access files as the user, or call execve(2), which keeps the credentials of the
// calling thread, while the rest of kollet-start stays root and can still report
// an error.
func as(user account, do func(become func() error) error) error {
	result := make(chan error)
	go func() {
		// Never unlocked: the runtime ends the thread with its goroutine, and
		// starts no other thread from it.
		runtime.LockOSThread()
		result <- do(func() error { return becomeUser(user) })
	}()
	return <-result
}

// becomeUser gives this thread the user's ids and groups and, unless that is
// root, no capabilities: what docker run --user gives. It uses raw system
// calls because package syscall changes all threads.
func becomeUser(user account) error {
	groups := user.groups32()
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0]) //nolint:gosec // the system call takes an array
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); errno != 0 {
		return fmt.Errorf("set groups %v of %s: %w", user.groups, user, errno)
	}
	gid, uid := uintptr(user.gid), uintptr(user.uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("set group %d of %s: %w", user.gid, user, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("become %s: %w", user, errno)
	}
	if user.uid == 0 {
		return nil
	}
	// Leaving root empties all sets but the inheritable one, capabilities(7),
	// which some engines fill.
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities of %s: %w", user, err)
	}
	return nil
}

// execute replaces this process. It returns only on failure.
func execute(program string, argv, env []string) error {
	// syscall.Exec also restores the limit of open files that Go raised.
	err := syscall.Exec(program, argv, env) //nolint:gosec // kollet-start exists to execute the service
	code := gate.ExitExec
	if errors.Is(err, syscall.ENOENT) {
		code = gate.ExitProgram
	}
	return exit(code, fmt.Errorf("entrypoint %s: %w", program, err))
}
