package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/host"
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

// restartUnit starts Podman's containers, either at each boot, as systemctl enable makes it, or
// because the unit that kollet bootstrap installs for a node with Podman names it in Wants=.
const (
	restartUnit = "podman-restart.service"
	enabledUnit = "/etc/systemd/system/default.target.wants/" + restartUnit
	recoverUnit = "/etc/systemd/system/kollet-recover.service"
)

// checkBoot: Podman runs nothing by itself, so its containers run again after a boot only if
// something starts them.
func checkBoot(h host.Host) Check {
	switch {
	case !h.RunsSystemd():
		return Check{"boot", Warning, "without systemd nothing starts Podman's containers after a boot", "have the init system run `podman start --all --filter should-start-on-boot=true` before `kollet recover`"}
	case h.HasFile(enabledUnit) || wants(h, recoverUnit, restartUnit):
		return Check{Name: "boot", Level: Fine, Text: restartUnit + " starts services again after a boot"}
	}
	return Check{"boot", Warning, "nothing starts Podman's containers after a boot", "systemctl enable " + restartUnit}
}

// wants reports whether a unit file wants another unit.
func wants(h host.Host, path, unit string) bool {
	text, err := os.ReadFile(filepath.Join(h.Root, path))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if list, found := strings.CutPrefix(line, "Wants="); found && slices.Contains(strings.Fields(list), unit) {
			return true
		}
	}
	return false
}
