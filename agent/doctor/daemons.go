package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// A hostDaemon is a daemon that distributions run on the host, and that cannot run beside a
// service of the profile.
type hostDaemon struct {
	name    string   // of the check
	service string   // it matters only where the node file has this service; empty: one with guests
	sockets []string // below /run, or abstract; the host's and the service's are the same
	remedy  string
}

var hostDaemons = []hostDaemon{
	{ // Two libvirts would both claim the same guests. The node's container shares the host's /run.
		name:    "host libvirt",
		sockets: []string{"libvirt/libvirt-sock", "libvirt/virtqemud-sock"},
		remedy:  "stop and mask libvirtd on the host: systemctl disable --now libvirtd.service libvirtd.socket",
	},
	{ // open-iscsi: usr/mgmt_ipc.h; systemd may listen in its place.
		name: "host iscsid", service: "iscsid",
		sockets: []string{"@ISCSIADM_ABSTRACT_NAMESPACE"},
		remedy:  "stop and mask iscsid on the host: systemctl mask --now iscsid.service iscsid.socket; its sessions are the kernel's, and stay",
	},
	{ // multipath-tools: libmpathutil/globals.h
		name: "host multipathd", service: "multipathd",
		sockets: []string{"@/org/kernel/linux/storage/multipathd"},
		remedy:  "stop and mask multipathd on the host: systemctl mask --now multipathd.service multipathd.socket; its devices are the kernel's, and stay",
	},
}

// checkHostDaemons checks that no daemon of the host has the place of a service.
func checkHostDaemons(ctx context.Context, n *node.Node, services []generation.Service) []Check {
	var checks []Check
	for _, d := range hostDaemons {
		inPlace := func(s generation.Service) bool { return s.Name == d.service || d.service == "" && s.Guests != nil }
		unknown := services == nil && d.service == "" // there is no node file yet
		if unknown || slices.ContainsFunc(services, inPlace) {
			checks = append(checks, d.check(ctx, n))
		}
	}
	return checks
}

func (d hostDaemon) check(ctx context.Context, n *node.Node) Check {
	for _, socket := range d.sockets {
		if !strings.HasPrefix(socket, "@") {
			socket = filepath.Join(n.Host.Run, socket)
		}
		pid, err := stranger(ctx, n, socket)
		if err != nil {
			return Check{d.name, Warning, err.Error(), d.remedy}
		}
		if pid == 0 {
			continue
		}
		if container := kollaHolds(ctx, n, pid); container != "" {
			return Check{d.name, Bad, fmt.Sprintf("kolla-ansible's container %s listens at %s", container, socket), "`kollet adopt` takes the node over"}
		}
		return Check{d.name, Bad, fmt.Sprintf("process %d, which is in none of this node's containers, listens at %s", pid, socket), d.remedy}
	}
	return Check{Name: d.name, Level: Fine, Text: "off"}
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
	if holder(n, all, pid) != nil {
		return true, nil
	}
	return false, err
}

// holder returns which of some containers a process is in; nil: in none.
func holder(n *node.Node, all []containers.Container, pid int) *containers.Container {
	for i, c := range all {
		cgroup, err := n.Host.ContainerCgroup(c.PID, c.ID)
		if err != nil {
			continue // it does not run
		}
		if held, err := cgroup.Holds(pid); c.PID == pid || err == nil && len(held) > 0 {
			return &all[i]
		}
	}
	return nil
}
