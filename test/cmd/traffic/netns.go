package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// device is the name of a port inside its namespace.
const device = "eth0"

// buffer is the size of sockets' buffers. What a busy machine reads late must not count as
// lost by the switch.
const buffer = 16 << 20

// inside calls a function in a network namespace. Its sockets stay there.
func inside(netns string, open func() error) error {
	done := make(chan error)
	go func() { // the thread ends with this function, because it is not unlocked
		runtime.LockOSThread()
		done <- func() error {
			file, err := os.Open("/run/netns/" + netns)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter network namespace %s: %w", netns, err)
			}
			return open()
		}()
	}()
	return <-done
}

// enlarge gives a socket large buffers.
func enlarge(_, _ string, socket syscall.RawConn) (err error) {
	set := func(fd uintptr) { err = enlargeSocket(int(fd)) }
	if failed := socket.Control(set); failed != nil {
		return failed
	}
	return err
}

func enlargeSocket(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, buffer); err != nil {
		return fmt.Errorf("enlarge a socket's buffer: %w", err)
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, buffer)
}

// wire is a packet socket at a port: whole frames of one protocol.
type wire struct {
	file *os.File
	mac  net.HardwareAddr // of the port
}

// openWire opens a packet socket in the namespace of this thread. It gets the frames that the
// filter accepts, also those for other stations.
func openWire(protocol uint16, filter []unix.SockFilter) (*wire, error) {
	link, err := net.InterfaceByName(device)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open a packet socket: %w", err)
	}
	file := os.NewFile(uintptr(fd), "packet socket")
	err = enlargeSocket(fd)
	if err == nil && len(filter) > 0 {
		err = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	}
	if err == nil {
		err = unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(link.Index), Type: unix.PACKET_MR_PROMISC})
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: swapped(protocol), Ifindex: link.Index})
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("prepare a packet socket: %w", err)
	}
	return &wire{file, link.HardwareAddr}, nil
}

// swapped converts a number to network byte order, on machines whose order is the other one.
func swapped(n uint16) uint16 { return n<<8 | n>>8 }

// udpPort returns a filter that accepts IPv4 packets without options that have a UDP port at an
// offset.
func udpPort(offset, port uint32) []unix.SockFilter {
	return []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: offset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: port, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffff},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	}
}
