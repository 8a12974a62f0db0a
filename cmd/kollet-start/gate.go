package main

import (
	"fmt"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// enterGate makes sure that there is a gate, and removes what an earlier start of
// this container reported.
func enterGate(dir string) error {
	if st, err := stat(dir); err != nil || !isDir(st) {
		return fmt.Errorf("no gate at %s: mount the container's gate directory there", dir)
	}
	failed := path.Join(dir, gate.FileFailed)
	if err := unix.Unlink(failed); err != nil && err != unix.ENOENT {
		// The kernel says so before it looks for the file. A service whose gate is open
		// is restarted also if the host's file system can no longer be written.
		if err := unlessReadOnly(failure("unlink", failed, err)); err != nil {
			return fmt.Errorf("gate: %w", err)
		}
	}
	return nil
}

func declareReady(dir string) error { return declare(dir, gate.FileReady, "") }

// declare creates a file in the gate directory atomically: kollet may read it at
// any time.
func declare(dir, name, content string) error {
	name = path.Join(dir, name)
	fresh := name + ".new"
	err := writeFile(fresh, unix.O_CREAT|unix.O_TRUNC, []byte(content), func(string) error { return nil })
	if err != nil {
		return err
	}
	return failure("rename onto", name, unix.Rename(fresh, name))
}

// waitOpen returns when the gate is open. The file decides: kollet creates it
// before it writes the byte, and waitOpen looks for it after it opened the FIFO,
// so a byte that is written before there is a reader is not missed. The FIFO is
// opened for reading and writing because it then never reports end of file,
// fifo(7). It is reopened at every tick, in case it was replaced or absent.
func waitOpen(dir string, tick time.Duration) {
	open := path.Join(dir, gate.FileOpen)
	fifo := path.Join(dir, gate.FileFIFO)
	for {
		fd, err := unix.Open(fifo, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			fd = -1 // poll(2) ignores it and sleeps
		}
		for woken := true; woken; woken = sleep(fd, tick) {
			// Package os would register the descriptor with the runtime's poller,
			// which takes longer to return.
			if unix.Access(open, unix.F_OK) == nil {
				return // fd is closed by execve
			}
		}
		unix.Close(fd)
	}
}

// sleep returns true if a byte arrived, which it consumes, or if it was
// interrupted, and false after limit.
func sleep(fd int, limit time.Duration) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(limit.Milliseconds()))
	if n > 0 {
		var bytes [64]byte
		_, _ = unix.Read(fd, bytes[:])
	}
	return n > 0 || err != nil
}
