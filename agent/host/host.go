// Package host reads the state of the machine: its processes, mounts, cgroups,
// capabilities, clock and init system. It imports nothing of kollet's.
package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Host says where the machine's state is read from. Real returns that of the
// machine itself; tests point it at directories of their own.
type Host struct {
	Root string // parent of /dev, /lib and /var/lib
	Proc string // the proc file system
	Sys  string // the sys file system
	Run  string // runtime state: sockets, systemd, cloud-init

	Now                 func() time.Time
	DiskFree            func(path string) (int64, error) // bytes that are free for a path, which need not exist yet
	ClockSynchronized   func() (bool, error)             // whether the kernel's clock is synchronized
	MissingCapabilities func() ([]string, error)         // what the kernel knows and this process can never have

	// SocketPeers returns the inode of the other end of each connected Unix socket in
	// the network namespace of a process, by the inode of the socket.
	SocketPeers func(pid int) (map[uint64]uint64, error)
}

// Real returns the machine that this program runs on.
func Real() Host {
	return Host{
		Root: "/", Proc: "/proc", Sys: "/sys", Run: "/run",
		Now: time.Now, DiskFree: diskFree, ClockSynchronized: clockSynchronized, MissingCapabilities: missingCapabilities,
		SocketPeers: socketPeers,
	}
}

// HasFile reports whether a path below Root exists.
func (h Host) HasFile(path string) bool { return exists(filepath.Join(h.Root, path)) }

// RunsSystemd reports whether systemd is the init system (sd_booted(3)).
func (h Host) RunsSystemd() bool { return exists(filepath.Join(h.Run, "systemd/system")) }

// SystemdOwns reports whether only systemd may make and remove cgroups in a hierarchy
// (systemd: docs/CGROUP_DELEGATION.md).
func (h Host) SystemdOwns(hierarchy string) bool {
	return h.RunsSystemd() && (hierarchy == "" || hierarchy == "name=systemd")
}

func diskFree(path string) (int64, error) {
	for path != "/" && !exists(path) {
		path = filepath.Dir(path)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return int64(fs.Bavail) * fs.Bsize, nil
}

// clockSynchronized asks the kernel, see adjtimex(2).
func clockSynchronized() (bool, error) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return false, fmt.Errorf("read the clock's state: %w", err)
	}
	const timeError = 5 // TIME_ERROR
	return state != timeError && t.Status&unix.STA_UNSYNC == 0, nil
}

func exists(path string) bool {
	_, err := os.Stat(path) //nolint:gosec // nothing is read
	return err == nil
}

// Gone reports whether an error means that a process has exited: its directory in
// /proc disappears, and files that were open there fail with ESRCH.
func Gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, ErrExited)
}
