package host

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketPeers asks the kernel for the connected Unix sockets of a process's network
// namespace (sock_diag(7)). /proc/net/unix does not say which belong together.
func socketPeers(pid int) (map[uint64]uint64, error) {
	socket, err := diagSocket(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for Unix sockets: %w", err)
	}
	defer unix.Close(socket)
	peers, err := dumpPeers(socket)
	if err != nil {
		return nil, fmt.Errorf("ask the kernel for Unix sockets: %w; the module unix_diag may be missing", err)
	}
	return peers, nil
}

// diagSocket opens a socket in a network namespace. A socket stays in the namespace in
// which it was made, so this thread enters that for a moment.
func diagSocket(namespace string) (socket int, err error) {
	there, err := os.Open(namespace)
	if err != nil {
		return -1, err
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return -1, err
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return -1, fmt.Errorf("enter %s: %w", namespace, err)
	}
	socket, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
		_ = unix.Close(socket)
		return -1, errors.Join(err, fmt.Errorf("leave %s: %w", namespace, back)) // the thread stays locked
	}
	runtime.UnlockOSThread()
	return socket, err
}

// From include/uapi/linux/unix_diag.h.
const (
	showPeer      = 4       // UDIAG_SHOW_PEER
	attributePeer = 2       // UNIX_DIAG_PEER
	requestSize   = 16 + 24 // struct nlmsghdr, struct unix_diag_req
	messageSize   = 16      // struct unix_diag_msg, before its attributes
	anyState      = ^uint32(0)
)

func dumpPeers(socket int) (map[uint64]uint64, error) {
	request := make([]byte, requestSize)
	order := binary.NativeEndian
	order.PutUint32(request[0:], requestSize)
	order.PutUint16(request[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(request[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	request[16] = unix.AF_UNIX
	order.PutUint32(request[20:], anyState)
	order.PutUint32(request[28:], showPeer)
	if err := unix.Sendto(socket, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, err
	}
	peers := map[uint64]uint64{}
	for buffer := make([]byte, 64<<10); ; {
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, err
		}
		messages, err := syscall.ParseNetlinkMessage(buffer[:n])
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			switch m.Header.Type {
			case unix.NLMSG_DONE:
				return peers, nil
			case unix.NLMSG_ERROR:
				return nil, refusal(m.Data)
			case unix.SOCK_DIAG_BY_FAMILY:
				addPeer(peers, m.Data)
			}
		}
	}
}

func refusal(message []byte) error {
	if len(message) < 4 {
		return errors.New("the kernel's answer is too short")
	}
	return unix.Errno(-int32(binary.NativeEndian.Uint32(message)))
}

// addPeer reads a struct unix_diag_msg, and the attributes after it: a length, a type,
// and a value, at multiples of four bytes.
func addPeer(peers map[uint64]uint64, message []byte) {
	order := binary.NativeEndian
	if len(message) < messageSize {
		return
	}
	inode := uint64(order.Uint32(message[4:]))
	for rest := message[messageSize:]; len(rest) >= 4; {
		length := int(order.Uint16(rest))
		if length < 4 || length > len(rest) {
			return
		}
		if order.Uint16(rest[2:]) == attributePeer && length >= 8 {
			peers[inode] = uint64(order.Uint32(rest[4:]))
		}
		rest = rest[min(len(rest), (length+3)&^3):]
	}
}
