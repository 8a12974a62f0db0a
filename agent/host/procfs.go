package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

func number(pid int) string { return strconv.Itoa(pid) }

// ProcessPath returns a path below a process's directory in /proc.
func (h Host) ProcessPath(pid int, path string) string {
	return filepath.Join(h.Proc, number(pid), path)
}

// PathInside returns where a path of a process's file system is on this host.
// Symbolic links are followed as the process would follow them.
func (h Host) PathInside(pid int, path string) (string, error) {
	return securejoin.SecureJoin(h.ProcessPath(pid, "root"), path)
}

// ReadInside reads a regular file of a process's file system, of at most limit
// bytes. The process may replace the file by anything, such as a pipe or a device.
func (h Host) ReadInside(pid int, path string, limit int64) ([]byte, error) {
	handle, err := h.HoldInside(pid, path, 0)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	f, err := wary.Reopen(handle, path, unix.O_RDONLY, unix.S_IFREG)
	if err != nil {
		return nil, fmt.Errorf("read %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("read %s: it is longer than %d bytes", path, limit)
	}
	return data, err
}

// HoldInside finds a path of a process's file system, as PathInside does, and holds what it
// found without opening it (O_PATH): the process cannot change it for another. With the flag
// unix.O_NOFOLLOW that may be a link. wary.Reopen opens it.
func (h Host) HoldInside(pid int, path string, flags int) (*os.File, error) {
	root, err := os.Open(h.ProcessPath(pid, "root"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	flags |= unix.O_PATH | unix.O_CLOEXEC
	how := unix.OpenHow{Flags: uint64(flags), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS} // openat2(2): the kernel follows the links
	fd, err := unix.Openat2(int(root.Fd()), path, &how)
	for tries := 0; errors.Is(err, unix.EAGAIN) && tries < 100; tries++ { // something was renamed meanwhile
		fd, err = unix.Openat2(int(root.Fd()), path, &how)
	}
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.6
		fd, err = h.holdFound(pid, path, flags)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// holdFound is HoldInside without the kernel's help.
func (h Host) holdFound(pid int, path string, flags int) (int, error) {
	dir, name := path, "."
	if flags&unix.O_NOFOLLOW != 0 {
		dir, name = filepath.Dir(path), filepath.Base(path)
	}
	found, err := h.PathInside(pid, dir)
	if err != nil {
		return -1, err
	}
	return unix.Open(filepath.Join(found, name), flags|unix.O_NOFOLLOW, 0)
}

// Processes lists the machine's processes.
func (h Host) Processes() ([]int, error) {
	entries, err := os.ReadDir(h.Proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// HasProcess reports whether a process runs whose first argument is this. A node
// has many processes, so it does as little as possible for each.
func (h Host) HasProcess(argument string) (bool, error) {
	want := append([]byte(argument), 0)
	proc, err := os.Open(h.Proc)
	if err != nil {
		return false, fmt.Errorf("list processes: %w", err)
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return false, fmt.Errorf("list processes: %w", err)
	}
	start := make([]byte, len(want))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue // no process
		}
		fd, err := unix.Openat(int(proc.Fd()), name+"/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue // it has exited
		}
		n, err := unix.Read(fd, start)
		_ = unix.Close(fd)
		if err == nil && bytes.Equal(start[:n], want) {
			return true, nil
		}
	}
	return false, nil
}

// mostArguments is how much of a process's arguments is read, in bytes: far more than
// QEMU has. A process can have its memory shown there, as much as it likes
// (PR_SET_MM_ARG_END, prctl(2)).
const mostArguments = 4 << 20

// CommandLine returns a process's arguments; none for a kernel thread or a zombie.
func (h Host) CommandLine(pid int) ([]string, error) {
	data, err := wary.Read(unix.AT_FDCWD, h.ProcessPath(pid, "cmdline"), mostArguments)
	if err != nil {
		return nil, err
	}
	data = bytes.TrimRight(data, "\x00")
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(string(data), "\x00"), nil
}

// CommandName returns the name of a process's program, at most 15 bytes of it.
func (h Host) CommandName(pid int) (string, error) {
	data, err := os.ReadFile(h.ProcessPath(pid, "comm"))
	return strings.TrimSuffix(string(data), "\n"), err
}

// StartTime returns when a process was started, in clock ticks after boot. With
// the process's number it identifies the process until the next boot.
func (h Host) StartTime(pid int) (uint64, error) {
	fields, err := statFields(h.ProcessPath(pid, ""))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(fields[19], 10, 64) // field 22, proc_pid_stat(5)
}

// ticksPerSecond is the unit of times in /proc: USER_HZ is 100 everywhere.
const ticksPerSecond = 100

// Age returns for how long a process has run, whatever the clock was set to since.
func (h Host) Age(pid int) (time.Duration, error) {
	start, err := h.StartTime(pid)
	if err != nil {
		return 0, err
	}
	data, err := os.ReadFile(filepath.Join(h.Proc, "uptime"))
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(data), " ") // proc_uptime(5)
	seconds, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0, fmt.Errorf("read for how long the machine has run: %w", err)
	}
	uptime := time.Duration(seconds * float64(time.Second))
	return max(0, uptime-time.Duration(start)*time.Second/ticksPerSecond), nil
}

// Parent returns the number of the process that started a process.
func (h Host) Parent(pid int) (int, error) {
	fields, err := statFields(h.ProcessPath(pid, ""))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(fields[1])
}

// IsRoots reports whether a process runs as root. The owner of its files in /proc does not tell: they
// are root's, too, if the process may not be dumped (proc(5)).
func (h Host) IsRoots(pid int) bool {
	status, err := os.ReadFile(h.ProcessPath(pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if users, found := strings.CutPrefix(line, "Uid:"); found { // real, effective, saved, of files
			fields := strings.Fields(users)
			return len(fields) == 4 && !slices.ContainsFunc(fields, func(uid string) bool { return uid != "0" })
		}
	}
	return false
}

// exited reports whether the process or thread with this directory in /proc is a
// zombie, or no longer exists.
func exited(dir string) bool {
	fields, err := statFields(dir)
	return Gone(err) || err == nil && (fields[0] == "Z" || fields[0] == "X")
}

func statFields(dir string) ([]string, error) {
	stat, err := os.ReadFile(filepath.Join(dir, "stat")) //nolint:gosec // the path is below /proc
	if err != nil {
		return nil, err
	}
	fields := parseStat(stat)
	if len(fields) < 20 {
		return nil, fmt.Errorf("read %s: expected at least 22 fields", filepath.Join(dir, "stat"))
	}
	return fields, nil
}

// parseStat returns the fields of a stat file from the third, the state, on.
// The command name before them is in parentheses and may contain spaces and
// parentheses itself (proc_pid_stat(5)).
func parseStat(stat []byte) []string {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return nil
	}
	return strings.Fields(string(stat[end+1:]))
}
