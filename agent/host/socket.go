package host

import (
	"context"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// Listener returns the process that listens at a Unix socket (SO_PEERCRED,
// unix(7)).
func Listener(ctx context.Context, socket string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if perr != nil {
		return 0, perr
	}
	return int(peer.Pid), nil
}
