package doctor

import (
	"context"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// hostLibvirt is where a libvirt answers, whoever runs it: the node's container
// shares the host's /run.
var hostLibvirt = []string{"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"}

// checkHostLibvirt makes sure that no libvirt but the node's own manages guests
// here: two of them would fight over the same guests.
func checkHostLibvirt(ctx context.Context, n *node.Node) Check {
	const remedy = "stop and mask libvirtd on the host: systemctl disable --now libvirtd.service libvirtd.socket"
	for _, socket := range hostLibvirt {
		pid, err := listener(ctx, socket)
		if err != nil {
			continue // nobody answers
		}
		ours, err := isOurs(ctx, n, pid)
		if err != nil {
			return Check{"host libvirt", Warning, err.Error(), remedy}
		}
		if !ours {
			return Check{"host libvirt", Bad, fmt.Sprintf("process %d, which is none of this node's containers, answers at %s", pid, socket), remedy}
		}
	}
	return Check{Name: "host libvirt", Level: Fine, Text: "off"}
}

// listener returns the process that listens at a socket (SO_PEERCRED, unix(7)).
func listener(ctx context.Context, socket string) (int, error) {
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

// isOurs reports whether a process is in one of this node's containers: in those
// of Kolla's images, the first process is dumb-init, and libvirtd its child.
func isOurs(ctx context.Context, n *node.Node, pid int) (bool, error) {
	all, err := n.Containers(ctx)
	for _, c := range all {
		if c.State != containers.StateRunning {
			continue
		}
		cgroup, err := n.Host.CgroupOf(c.PID)
		if err != nil {
			continue // it ended meanwhile
		}
		if held, err := cgroup.Holds(pid); c.PID == pid || err == nil && len(held) > 0 {
			return true, nil
		}
	}
	return false, err
}
