package host

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// EndFIFOs has the threads of a process that wait for someone to open a FIFO for writing read its
// end instead, and returns the paths. which says by its path whether a FIFO is meant.
func (h Host) EndFIFOs(pid int, which func(path string) bool) []string {
	var ended []string
	for _, thread := range h.threads(pid) {
		path, reads := h.opening(pid, thread)
		if reads && which(path) && h.endFIFO(pid, path) == nil {
			ended = append(ended, path)
		}
	}
	return ended
}

// opening returns the whole path that a thread opens for reading at this moment.
func (h Host) opening(pid int, thread string) (path string, reads bool) {
	text, err := os.ReadFile(h.ProcessPath(pid, "task/"+thread+"/syscall"))
	if err != nil {
		return "", false
	}
	// proc_pid_syscall(5): number, directory, address of the path, flags, …; "running" for other threads
	call := strings.Fields(string(text))
	if len(call) < 4 || call[0] != strconv.Itoa(unix.SYS_OPENAT) {
		return "", false
	}
	at, err := strconv.ParseInt(call[2], 0, 64)
	if err != nil {
		return "", false
	}
	flags, err := strconv.ParseUint(call[3], 0, 64)
	if err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY {
		return "", false
	}
	memory, err := os.Open(h.ProcessPath(pid, "mem"))
	if err != nil {
		return "", false
	}
	defer memory.Close()
	buffer := make([]byte, unix.PathMax)
	n, err := memory.ReadAt(buffer, at)
	end := bytes.IndexByte(buffer[:n], 0)
	if err != nil && !errors.Is(err, io.EOF) && n == 0 || end < 0 {
		return "", false
	}
	path = string(buffer[:end])
	return path, filepath.IsAbs(path)
}

// endFIFO opens a FIFO of a process's file system for writing, if someone waits for that, and
// closes it. What is no FIFO is not opened.
func (h Host) endFIFO(pid int, path string) error {
	held, err := h.HoldInside(pid, path, unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer held.Close()
	info, err := held.Stat()
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeNamedPipe == 0 {
		return fmt.Errorf("%s is no FIFO", path)
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err // ENXIO: nobody reads
	}
	return unix.Close(fd)
}
