package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/kollet/kollet/containers"
)

// hung is the state of a service that hangs in the kernel. What waits for it takes long,
// so it has a node of its own.
const hung = "cannot be killed"

// writing is what the service does that can hang: it writes to its volume.
const writing = "jam, /volume/file"

// newHungNode returns a node whose service has a volume on a file system that can be
// frozen.
func newHungNode(t *testing.T, p *protocol) *sickNode {
	t.Helper()
	// An image of its own: the other node's is removed.
	pushTiny(t, p.registry, "test/writer", "v1", func(c *v1.Config) { c.Env = []string{"WRITER=yes"} })
	image, volume := filepath.Join(t.TempDir(), "image"), t.TempDir()
	check(t, os.WriteFile(image, nil, 0o600))
	check(t, os.Truncate(image, 16<<20))
	run(t, exec.Command("mkfs.ext4", "-q", image))
	run(t, exec.Command("mount", "-o", "loop", image, volume))
	t.Cleanup(func() { run(t, exec.Command("umount", volume)) })
	address := map[string]string{"docker": "127.0.0.1:7003", "containerd": "127.0.0.1:7004", "podman": "127.0.0.1:7006"}[p.engine.Name]
	return &sickNode{protocol: p, testNode: newNodeOn(t, p.engine), name: "writer", image: "writer", address: address, data: t.TempDir(), volume: volume}
}

// freeze makes the service hang: not even SIGKILL ends a thread that waits for a frozen
// file system.
func (s *sickNode) freeze(c containers.Container) {
	s.T.Helper()
	run(s.T, exec.Command("fsfreeze", "--freeze", s.volume))
	s.T.Cleanup(func() { _ = exec.Command("fsfreeze", "--unfreeze", s.volume).Run() }) // if the test fails
	s.Await("the service hangs", func() bool {
		stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.PID))
		return slices.ContainsFunc(stats, func(path string) bool {
			stat, _ := os.ReadFile(path)
			return strings.Contains(string(stat), ") D ")
		})
	})
}

func (s *sickNode) thaw() {
	s.T.Helper()
	run(s.T, exec.Command("fsfreeze", "--unfreeze", s.volume))
}

// killedAndThere reports whether a container's process was killed and is there still.
func killedAndThere(c containers.Container) bool {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.PID))
	return strings.Contains(string(status), "State:\tZ")
}

// survivesHanging takes the service through its state as survives does. As long as it
// hangs, no other container of it may run.
func (s *sickNode) survivesHanging(rows []sickRow) {
	row := rows[slices.IndexFunc(rows, func(r sickRow) bool { return r.state == hung })]
	s.configure(writing)
	s.Must(0, "bootstrap")

	s.sicken(row)
	s.answers(row)
	old := s.container()
	s.configure(writing)
	s.once(func() { contains(s.T, s.Must(row.upgrade, "upgrade").Stderr, "was killed and has not exited") })
	s.hangsUntilThawed(old, writing)

	old = s.container()
	s.sicken(row)
	s.once(func() { contains(s.T, s.Must(row.rollback, "rollback").Stderr, "was killed and has not exited") })
	s.hangsUntilThawed(old, writing)

	// kollet is killed while it waits for the service's end.
	old = s.container()
	s.sicken(row)
	s.configure(writing)
	upgrade := s.Command("upgrade")
	check(s.T, upgrade.Start())
	s.Await("kollet kills the service", func() bool { return killedAndThere(old) })
	check(s.T, upgrade.Process.Kill())
	_ = upgrade.Wait()
	s.once(func() { s.Must(row.recover, "recover") })
	s.hangsUntilThawed(old, "serve")

	// The new container hangs, and the old one must not be started beside it.
	run(s.T, exec.Command("fsfreeze", "--freeze", s.volume))
	s.configure(writing + `, ""`)
	s.once(func() {
		contains(s.T, s.Must(row.upgradeThatFails, "upgrade").Stderr, "hangs in the kernel", "kollet recover")
	})
	if found := s.processes(); len(found) > 0 {
		s.T.Fatalf("the service runs beside one that hangs: %q", found)
	}
	contains(s.T, s.Must(4, "recover").Stderr, "hangs in the kernel")
	s.thaw()
	s.once(func() { s.Must(0, "recover") })
	s.configure("serve")
	s.once(func() { s.Must(0, "upgrade") })
	s.well()
}

// hangsUntilThawed takes the cause away, after which a recovery starts the service again, and
// upgrades it.
func (s *sickNode) hangsUntilThawed(old containers.Container, mode string) {
	s.T.Helper()
	s.hangs(old)
	s.thaw()
	s.gone(old)
	s.once(func() { s.Must(0, "recover") })
	s.upgrade(0, mode)
	s.well()
}

// hangs requires that every command says so, and that nothing else is started.
func (s *sickNode) hangs(old containers.Container) {
	s.T.Helper()
	if found := s.processes(); len(found) > 0 || !killedAndThere(old) {
		s.T.Fatalf("the service runs beside one that hangs: %q", found)
	}
	const why = "was killed and has not exited"
	contains(s.T, s.Must(0, "status").Stdout, "unhealthy", why)
	contains(s.T, s.Must(1, "verify").Stdout, why)
	contains(s.T, s.Must(1, "upgrade").Stderr, "nothing was touched", why, "end what it waits for")
	contains(s.T, s.Must(4, "recover").Stderr, why)
}

// gone waits until the engine has noticed that a container exited.
func (s *sickNode) gone(old containers.Container) {
	s.T.Helper()
	s.Await("the service exits", func() bool {
		now, err := s.Engine.Inspect(context.Background(), old.ID)
		check(s.T, err)
		return now.PID != old.PID && syscall.Kill(old.PID, 0) != nil
	})
}
