package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/durable"
)

// kolla-ansible has systemd start its containers again: a unit of each runs `docker start
// --attach` with Restart=always (kolla-ansible: module_utils/kolla_systemd_worker.py). To stop the
// unit would have it stop the container, with its guests, before the new one is ready. So a
// drop-in keeps the unit from starting again; it ends with the container.

const unitDir = "/etc/systemd/system"

// held is the drop-in: its own existence keeps the unit from being started. ExecStop would run after
// the container has exited, and stop one that has got its name meanwhile.
const held = `# kollet runs this service. The file is removed when kolla-ansible's container runs again.
[Unit]
ConditionPathExists=!%s

[Service]
Restart=no
ExecStop=
`

func unitOf(container string) string { return "kolla-" + container + "-container.service" }

func (n *Node) dropIn(container string) string {
	return n.Path(filepath.Join(unitDir, unitOf(container)+".d", "kollet.conf"))
}

// hasUnit reports whether systemd starts a container.
func (n *Node) hasUnit(container string) bool {
	_, err := os.Lstat(n.Path(filepath.Join(unitDir, unitOf(container))))
	return err == nil
}

// holdUnit keeps systemd from starting a container, if it does.
func (n *Node) holdUnit(ctx context.Context, container string) error {
	path := n.dropIn(container)
	want := fmt.Appendf(nil, held, path)
	if !n.hasUnit(container) {
		return nil
	}
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, want) {
		if n.hasRead(ctx, container) {
			return nil
		}
		return n.systemctl(ctx, "daemon-reload")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(path, want, 0o644); err != nil {
		return err
	}
	return n.systemctl(ctx, "daemon-reload")
}

// hasRead reports whether systemd has read the drop-in of a unit: kollet may have been killed between
// the write and the reload.
func (n *Node) hasRead(ctx context.Context, container string) bool {
	if !n.hasSystemd() {
		return true
	}
	known, err := n.ask(ctx, "show", "--property", "DropInPaths,NeedDaemonReload", unitOf(container))
	return err == nil && strings.Contains(known, n.dropIn(container)) && strings.Contains(known, "NeedDaemonReload=no")
}

// releaseUnit undoes holdUnit, and has the unit follow the container, which runs.
func (n *Node) releaseUnit(ctx context.Context, container string) error {
	if err := n.letGo(ctx, container); err != nil || !n.hasUnit(container) { // no longer
		return err
	}
	return n.systemctl(ctx, "start", unitOf(container))
}

// letGo undoes holdUnit, and starts nothing.
func (n *Node) letGo(ctx context.Context, container string) error {
	path := n.dropIn(container)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.Remove(filepath.Dir(path)) // it may have other drop-ins
	if !n.hasUnit(container) {
		return nil
	}
	return n.systemctl(ctx, "daemon-reload")
}

// settleTime is how long a unit may take to notice that its container has stopped.
const settleTime = 30 * time.Second

// settleUnit waits until the unit of a container that has stopped, and is held, has noticed. If it
// noticed after it was released, it would stop the container that runs again, and start it later.
func (n *Node) settleUnit(ctx context.Context, container string) error {
	if _, err := os.Lstat(n.dropIn(container)); !n.hasSystemd() || err != nil {
		return nil
	}
	for end := time.Now().Add(settleTime); time.Now().Before(end); {
		state, err := n.ask(ctx, "show", "--property", "ActiveState", "--value", unitOf(container))
		if err != nil || state == "inactive" || state == "failed" {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	n.Note("", "%s does not notice that its container has stopped", unitOf(container))
	return nil
}

// UnitRestarts returns how often systemd has started a container again that had exited, since its
// unit was started. The engine counts only its own.
func (n *Node) UnitRestarts(ctx context.Context, container string) (int, error) {
	if !n.hasSystemd() || !n.hasUnit(container) {
		return 0, nil
	}
	count, err := n.ask(ctx, "show", "--property", "NRestarts", "--value", unitOf(container))
	if err != nil || count == "" { // before systemd 235
		return 0, err
	}
	return strconv.Atoi(count)
}

// hasSystemd reports whether units of the node are those of the running systemd.
func (n *Node) hasSystemd() bool { return n.Root == "" || n.systemd != nil }

// systemctl has the running systemd do something, unless the node is another root.
func (n *Node) systemctl(ctx context.Context, args ...string) error {
	if !n.hasSystemd() {
		return nil
	}
	_, err := n.ask(ctx, args...)
	return err
}

// ask runs systemctl, and returns what it prints.
func (n *Node) ask(ctx context.Context, args ...string) (string, error) {
	if n.systemd != nil {
		return n.systemd(args...)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput() //nolint:gosec // no shell reads them, and a unit of that name exists
	if err != nil {
		return "", fmt.Errorf("systemctl %q: %w: %s", args, err, bytes.TrimSpace(out))
	}
	return string(bytes.TrimSpace(out)), nil
}
