package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/wary"
)

// Lineage says how a process is related to others.
type Lineage struct {
	Parent   int
	Session  int    // the process that opened its session; it may have exited
	Terminal bool   // it has a controlling terminal
	Start    uint64 // as StartTime
	Exited   bool   // it is a zombie
}

// Lineage reads how a process is related to others.
func (h Host) Lineage(pid int) (Lineage, error) {
	fields, err := statFields(h.ProcessPath(pid, ""))
	if err != nil {
		return Lineage{}, err
	}
	var l Lineage
	var terminal int
	for at, to := range map[int]*int{1: &l.Parent, 3: &l.Session, 4: &terminal} { // fields 4, 6 and 7, proc_pid_stat(5)
		if *to, err = strconv.Atoi(fields[at]); err != nil {
			return l, fmt.Errorf("read field %d of %s: %w", at+3, h.ProcessPath(pid, "stat"), err)
		}
	}
	if l.Start, err = strconv.ParseUint(fields[19], 10, 64); err != nil {
		return l, fmt.Errorf("read field 22 of %s: %w", h.ProcessPath(pid, "stat"), err)
	}
	l.Terminal, l.Exited = terminal != 0, fields[0] == "Z" || fields[0] == "X"
	return l, nil
}

// Pipes returns the pipes that a process holds, or those among its first descriptors:
// 3 are its standard input, output and error. Each is named as in /proc, "pipe:[1234]".
func (h Host) Pipes(pid, first int) ([]string, error) {
	open, err := h.descriptors(pid)
	var pipes []string
	for fd, target := range open {
		if strings.HasPrefix(target, "pipe:") && (first < 0 || fd < first) {
			pipes = append(pipes, target)
		}
	}
	return pipes, err
}

// descriptors returns what each descriptor of a process refers to, none if it has exited.
func (h Host) descriptors(pid int) (map[int]string, error) {
	entries, err := os.ReadDir(h.ProcessPath(pid, "fd"))
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	open := map[int]string{}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		target, err := os.Readlink(h.ProcessPath(pid, "fd/"+e.Name()))
		if Gone(err) {
			continue // it was closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		open[fd] = target
	}
	return open, nil
}

// Ties names what a process shares, or may share, with others: two processes that
// have a tie in common work with each other. These are the pipes and sockets that it
// holds, the other ends of its Unix sockets (see SocketPeers; nil: not known, so any
// two sockets are taken for each other's ends), and the memory that it shares.
func (h Host) Ties(pid int, peers map[uint64]uint64) ([]string, error) {
	open, err := h.descriptors(pid)
	if err != nil {
		return nil, err
	}
	var ties []string
	for fd, target := range open {
		switch {
		case strings.HasPrefix(target, "pipe:"):
			ties = append(ties, target)
		case strings.HasPrefix(target, "socket:["):
			ties = append(ties, target)
			inode, err := strconv.ParseUint(strings.Trim(target, "socket:[]"), 10, 64)
			peer, connected := peers[inode]
			if peers == nil {
				ties = append(ties, "socket")
			} else if err == nil && connected {
				ties = append(ties, fmt.Sprintf("socket:[%d]", peer))
			}
		case strings.HasPrefix(target, "/memfd:"), strings.HasPrefix(target, "/dev/shm/"): // it may not be mapped yet
			// The process chooses the file system, which may never answer: it is not asked.
			var file unix.Statx_t
			if unix.Statx(unix.AT_FDCWD, h.ProcessPath(pid, "fd/"+number(fd)), unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &file) == nil { // else it was closed meanwhile
				ties = append(ties, memory(fmt.Sprintf("%02x:%02x", file.Dev_major, file.Dev_minor), number(int(file.Ino))))
			}
		}
	}
	shared, err := h.sharedMemory(pid)
	return append(ties, shared...), err
}

func memory(device, inode string) string { return "memory " + device + " " + inode }

// mostMaps is how much of a process's memory map is read, in bytes.
const mostMaps = 64 << 20

// sharedMemory names the memory that a process shares writably with others, by device
// and inode: a file, also one without a name (memfd_create(2), shm_overview(7)). What
// has the inode of all anonymous descriptors is shared with nobody.
func (h Host) sharedMemory(pid int) ([]string, error) {
	data, err := wary.Read(unix.AT_FDCWD, h.ProcessPath(pid, "maps"), mostMaps)
	if Gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var shared []string
	seen := map[string]bool{}
	for line := range bytes.Lines(data) {
		// ADDRESS PERMISSIONS OFFSET DEVICE INODE PATH, proc_pid_maps(5)
		fields := strings.Fields(string(line))
		if len(fields) < 5 || !strings.HasPrefix(fields[1], "rw") || !strings.HasSuffix(fields[1], "s") || fields[4] == "0" {
			continue
		}
		if len(fields) > 5 && strings.HasPrefix(fields[5], "anon_inode:") {
			continue
		}
		if name := memory(fields[3], fields[4]); !seen[name] {
			seen[name] = true
			shared = append(shared, name)
		}
	}
	return shared, nil
}
