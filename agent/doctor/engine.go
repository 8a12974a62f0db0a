package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

func checkEngine(ctx context.Context, n *node.Node) (Check, containers.Info) {
	info, err := n.Engine.Info(ctx)
	if err != nil {
		check := Check{Name: "engine", Level: Bad, Text: err.Error()}
		if !errors.Is(err, containers.ErrUnreachable) { // which says how to start it
			check.Remedy = "start the container engine"
		}
		return check, info
	}
	return Check{Name: "engine", Level: Fine, Text: fmt.Sprintf("%s %s at %s", info.Name, info.Version, info.Address)}, info
}

// checkLiveRestore: without live restore, a restart of dockerd stops every
// container, and with libvirt's container all guests in its cgroup.
func checkLiveRestore(info containers.Info) Check {
	if info.Name == "docker" && !info.LiveRestore {
		return Check{"live-restore", Warning, "a restart of dockerd stops the node's services", `set "live-restore": true in /etc/docker/daemon.json and reload dockerd`}
	}
	return Check{Name: "live-restore", Level: Fine, Text: "services survive a restart of the engine"}
}
