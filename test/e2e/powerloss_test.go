package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// boot runs the commands of the systemd unit, as each boot does.
func (n *testNode) boot(code int) outcome {
	n.t.Helper()
	unit, err := os.ReadFile(n.path("/etc/systemd/system/" + firstboot.UnitName))
	check(n.t, err)
	var all outcome
	for line := range strings.Lines(string(unit)) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart=")
		if !ok {
			continue
		}
		var stdout, stderr strings.Builder
		cmd := exec.Command("sh", "-c", command) // none of its characters is special to a shell
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		all = outcome{cmd.ProcessState.ExitCode(), all.stdout + stdout.String(), all.stderr + stderr.String()}
		if all.code != 0 {
			break
		}
	}
	if all.code != code {
		n.t.Fatalf("boot: exit status %d, want %d\n%s\n%s", all.code, code, unit, all.all())
	}
	return all
}

// killedBootstrap kills a bootstrap right after every second record of its journal, as
// a power loss would.
func killedBootstrap(t *testing.T, p *protocol) {
	n := p.fresh(t)
	for record := 1; ; record += 2 {
		if record > 40 {
			t.Fatal("the bootstrap does not end")
		}
		n.t = t
		o, killed := n.killedAt(record, "bootstrap", "--wait", "10s")
		if !killed {
			if record < 10 || o.code != 0 {
				t.Fatalf("record %d: exit status %d\n%s", record, o.code, o.all())
			}
			break
		}
		if !n.exists(firstboot.BegunPath) || n.exists(firstboot.FinishedPath) {
			t.Fatalf("record %d: %s is missing, or %s exists", record, firstboot.BegunPath, firstboot.FinishedPath)
		}
		n.useUnit()
		out := n.boot(0)
		contains(t, out.stdout, "was interrupted; continuing it", "bootstrap finished: committed")
		f := n.finished()
		if !f.OK || f.Outcome != "committed" || f.Generation == 0 || n.exists(firstboot.BegunPath) {
			t.Fatalf("record %d: finished: %+v", record, f)
		}
		n.healthy(f.Generation)
		n.must(0, "verify")
		contains(t, n.boot(0).stdout, "nothing to recover", "nothing to resume")
		n.clear()
		n = p.fresh(t)
	}
}

// useUnit makes the unit run the program without fault injection.
func (n *testNode) useUnit() {
	n.t.Helper()
	path := "/etc/systemd/system/" + firstboot.UnitName
	n.write(path, strings.ReplaceAll(n.read(path), "kollet-faults", "kollet"))
}

func shutDownBootstrap(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.registry.Stop()
	cmd := n.command("bootstrap", "--wait", "1m")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, cmd.Start())
	n.await("bootstrap waits for the registry", func() bool {
		return n.exists(firstboot.LogPath) && strings.Contains(n.read(firstboot.LogPath), "waiting for the registry")
	})
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	err := cmd.Wait()
	p.registry.Start()
	if err == nil {
		t.Fatalf("the bootstrap was not interrupted:\n%s", out.String())
	}
	contains(t, out.String(), "interrupted in pull", "the next boot continues it")
	if n.exists(firstboot.FinishedPath) {
		t.Fatalf("the bootstrap finished: %+v", n.finished())
	}
	n.boot(0)
	n.healthy(n.finished().Generation)
}

func (n *testNode) await(what string, holds func() bool) {
	n.t.Helper()
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("still waiting: %s", what)
		}
	}
}

func killedAgain(t *testing.T, p *protocol) {
	n := p.fresh(t)
	n.must(0, "bootstrap")
	p.configure(n, "v2", "two", "")
	if _, killed := n.killedAt(6, "bootstrap"); !killed {
		t.Fatal("the bootstrap was not killed")
	}
	n.useUnit()
	o := n.boot(1)
	contains(t, o.stderr, "the bootstrap was interrupted, and the node is on generation 1 as before")
	n.healthy(1)
	if f := n.finished(); f.OK || f.Generation != 1 {
		t.Errorf("finished: %+v", f)
	}
	n.boot(0)
	n.must(0, "bootstrap")
	if word := answer(t, "127.0.0.1:7001"); word != "two" {
		t.Errorf("alpha answers %q", word)
	}
}

// powerLoss kills an upgrade at every second record, then the engine and all
// containers, as a power loss does. The restarted engine starts the containers with a
// restart policy, and the commands of a boot do the rest.
func powerLoss(t *testing.T, p *protocol) {
	n := p.fresh(t)
	n.must(0, "bootstrap")
	tags := []string{"v1", "v2"}
	at, cuts := 0, 0
	for record := 1; ; record += 2 {
		p.configure(n, tags[1-at], tags[1-at], "")
		if _, killed := n.killedAt(record, "upgrade"); !killed {
			break
		}
		cuts++
		p.cutPower(n)
		n.boot(0)
		n.await("all services are healthy", func() bool { return n.status().Healthy })
		at = p.whole(t, n, tags)
	}
	if cuts < 8 {
		t.Fatalf("lost power only %d times", cuts)
	}
}

// cutPower kills the engine and every container, and starts the engine again.
func (p *protocol) cutPower(n *testNode) {
	n.t.Helper()
	all, err := n.engine.List(n.t.Context(), map[string]string{node.LabelNode: n.path(node.StateDir)})
	check(n.t, err)
	p.engine.kill()
	for _, c := range all {
		if c.State == containers.StateRunning {
			_ = syscall.Kill(c.PID, syscall.SIGKILL)
		}
	}
	n.await("the containers are gone", func() bool {
		for _, c := range all {
			if c.State == containers.StateRunning && syscall.Kill(c.PID, 0) == nil {
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.PID))
				if !strings.Contains(string(stat), ") Z") {
					return false
				}
			}
		}
		return true
	})
	p.engine.start()
}
