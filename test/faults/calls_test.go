package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// enterVar makes this program a launcher: it hands descriptor 3 a listener of its system
// calls and becomes the program in its arguments.
const enterVar = "KOLLET_FAULTS_LAUNCH"

// systemCalls are those that kollet changes or reads its state with, by number. In the
// value, the place of the path's directory descriptor among the arguments and that of the
// path; a call without a path has a descriptor.
var systemCalls = map[uint32]struct {
	name      string
	dir, path int
}{
	unix.SYS_WRITE:     {"write", 0, -1},
	unix.SYS_PWRITE64:  {"pwrite", 0, -1},
	unix.SYS_FTRUNCATE: {"ftruncate", 0, -1},
	unix.SYS_FALLOCATE: {"fallocate", 0, -1},
	unix.SYS_FSYNC:     {"fsync", 0, -1},
	unix.SYS_FDATASYNC: {"fdatasync", 0, -1},
	unix.SYS_SYNCFS:    {"syncfs", 0, -1},
	unix.SYS_OPENAT:    {"open", 0, 1},
	unix.SYS_MKDIRAT:   {"mkdir", 0, 1},
	unix.SYS_MKNODAT:   {"mknod", 0, 1},
	unix.SYS_UNLINKAT:  {"unlink", 0, 1},
	unix.SYS_RENAMEAT:  {"rename", 2, 3},
	unix.SYS_RENAMEAT2: {"rename", 2, 3},
	unix.SYS_LINKAT:    {"link", 2, 3},
	unix.SYS_SYMLINKAT: {"symlink", 1, 2},
}

// reading is the name of an open that changes nothing.
const reading = "open for reading"

// launch is the launcher. It does not return.
func launch() {
	runtime.LockOSThread()
	fmt.Fprintln(os.Stderr, "launch:", start())
	os.Exit(125)
}

func start() error {
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	filter := []unix.SockFilter{load(0)} // seccomp_data.nr
	for number := range systemCalls {
		filter = append(filter,
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
			unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	}
	filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	env := []string{}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, enterVar+"=") {
			env = append(env, v)
		}
	}
	// Without this, the filter needs a capability that a test machine may not have.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("set a seccomp filter: %w", errno)
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return fmt.Errorf("hand over the listener: %w", err)
	}
	_ = unix.Close(3)
	return unix.Exec(os.Args[1], os.Args[1:], env)
}

// notification is struct seccomp_notif of linux/seccomp.h.
type notification struct {
	id     uint64
	pid    uint32
	flags  uint32
	number uint32
	arch   uint32
	ip     uint64
	args   [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// failCalls runs a command. Of its system calls below dir, those fail with errno that the
// trigger chooses.
func failCalls(t testing.TB, cmd *exec.Cmd, dir string, errno syscall.Errno, trigger *trigger) error {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	own, theirs := os.NewFile(uintptr(pair[0]), "own"), os.NewFile(uintptr(pair[1]), "theirs")
	defer own.Close()
	self, err := os.Executable()
	check(t, err)
	cmd.Args = append([]string{self}, cmd.Args...)
	cmd.Args[1] = cmd.Path
	cmd.Path = self
	cmd.Env = append(cmd.Env, enterVar+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	check(t, cmd.Start())
	_ = theirs.Close()
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		t.Errorf("no listener of system calls: %v; %v", err, cmd.Wait())
		return errors.New("not launched")
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	check(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	check(t, err)
	served := make(chan error)
	go func() { served <- serve(fds[0], dir, errno, trigger) }()
	err = cmd.Wait()
	if e := <-served; e != nil {
		t.Error(e)
	}
	_ = unix.Close(fds[0])
	return err
}

// serve decides about system calls until their program has ended.
func serve(fd int, dir string, errno syscall.Errno, trigger *trigger) error {
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for a system call: %w", err)
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			if poll[0].Revents&unix.POLLHUP != 0 {
				return nil
			}
			continue
		}
		var n notification
		if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
			if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) { // the thread has ended meanwhile
				continue
			}
			return fmt.Errorf("receive a system call: %w", err)
		}
		r := reply{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if name, path := n.call(); path == dir || strings.HasPrefix(path, dir+"/") {
			if trigger.fires(name + " " + strings.TrimPrefix(path, dir)) {
				r.flags, r.error = 0, -int32(errno)
			}
		}
		if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r)); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("answer a system call: %w", err)
		}
	}
}

func ioctl(fd int, request uintptr, argument unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(argument)); errno != 0 {
		return errno
	}
	return nil
}

// call returns the name of a system call and the path that it is about.
func (n *notification) call() (name, path string) {
	c := systemCalls[n.number]
	descriptor := fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.args[c.dir]))
	if c.path < 0 {
		path, _ = os.Readlink(descriptor)
		return c.name, path
	}
	path = n.text(n.args[c.path])
	if !filepath.IsAbs(path) {
		if int32(n.args[c.dir]) == unix.AT_FDCWD {
			descriptor = fmt.Sprintf("/proc/%d/cwd", n.pid)
		}
		dir, _ := os.Readlink(descriptor)
		path = filepath.Join(dir, path)
	}
	if n.number == unix.SYS_OPENAT && n.args[2]&(unix.O_WRONLY|unix.O_RDWR|unix.O_CREAT) == 0 {
		return reading, path
	}
	return c.name, path
}

// text reads a string of the calling program.
func (n *notification) text(address uint64) string {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", n.pid))
	if err != nil {
		return ""
	}
	defer memory.Close()
	text := make([]byte, unix.PathMax)
	length, _ := memory.ReadAt(text, int64(address))
	path, _, _ := bytes.Cut(text[:length], []byte{0})
	return string(path)
}

var errnoNames = map[syscall.Errno]string{syscall.ENOSPC: "ENOSPC", syscall.EIO: "EIO", syscall.EROFS: "EROFS"}

// canFail reports whether an error is possible for a call. A file system that is full or
// read-only can still be read, and on a full one files can still be removed.
func canFail(call string, errno syscall.Errno, lasting bool) bool {
	switch {
	case errno == syscall.EIO:
		return true
	case strings.HasPrefix(call, reading):
		return false
	}
	return !(errno == syscall.ENOSPC && lasting && strings.HasPrefix(call, "unlink"))
}
