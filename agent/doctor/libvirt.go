package doctor

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
)

// libvirtSockets are libvirt's sockets below /run, of the host's libvirt or of the
// node's: the node's container shares the host's /run.
var libvirtSockets = []string{"libvirt/libvirt-sock", "libvirt/virtqemud-sock"}

// checkHostLibvirt checks that only the node's own libvirt manages guests: two of
// them would both claim the same guests.
func checkHostLibvirt(ctx context.Context, n *node.Node) Check {
	const remedy = "stop and mask libvirtd on the host: systemctl disable --now libvirtd.service libvirtd.socket"
	for _, name := range libvirtSockets {
		socket := filepath.Join(n.Host.Run, name)
		pid, err := stranger(ctx, n, socket)
		if err != nil {
			return Check{"host libvirt", Warning, err.Error(), remedy}
		}
		if pid != 0 {
			return Check{"host libvirt", Bad, fmt.Sprintf("process %d, which is in none of this node's containers, listens at %s", pid, socket), remedy}
		}
	}
	return Check{Name: "host libvirt", Level: Fine, Text: "off"}
}

// stranger returns the process that listens at a socket and is in none of this node's
// containers, 0 if there is none. A process that exits while its container is looked for,
// for example because the node's libvirt crashes, is asked for again.
func stranger(ctx context.Context, n *node.Node, socket string) (int, error) {
	for {
		pid, err := host.Listener(ctx, socket)
		if err != nil {
			return 0, nil // nothing listens
		}
		if ours, err := isOurs(ctx, n, pid); ours || err != nil {
			return 0, err
		}
		if again, err := host.Listener(ctx, socket); err == nil && again == pid || ctx.Err() != nil {
			return pid, ctx.Err()
		}
	}
}

// isOurs reports whether a process is in one of this node's containers. It need
// not be the first process: in Kolla's images that is dumb-init.
func isOurs(ctx context.Context, n *node.Node, pid int) (bool, error) {
	all, err := n.Containers(ctx)
	for _, c := range all {
		cgroup, err := n.Host.ContainerCgroup(c.PID, c.ID)
		if err != nil {
			continue // it does not run
		}
		if held, err := cgroup.Holds(pid); c.PID == pid || err == nil && len(held) > 0 {
			return true, nil
		}
	}
	return false, err
}
