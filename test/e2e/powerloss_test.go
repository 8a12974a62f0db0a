package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/test/machine"
)

// boot runs the commands of the systemd unit, as each boot does.
func (n *testNode) boot(code int) outcome {
	n.T.Helper()
	unit, err := os.ReadFile(n.Path("/etc/systemd/system/" + firstboot.UnitName))
	check(n.T, err)
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
		all = outcome{Code: cmd.ProcessState.ExitCode(), Stdout: all.Stdout + stdout.String(), Stderr: all.Stderr + stderr.String()}
		if all.Code != 0 {
			break
		}
	}
	if all.Code != code {
		n.T.Fatalf("boot: exit status %d, want %d\n%s\n%s", all.Code, code, unit, all.All())
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
		n.T = t
		o, killed := n.KilledAt(record, "bootstrap", "--wait", "10s")
		if !killed {
			if record < 10 || o.Code != 0 {
				t.Fatalf("record %d: exit status %d\n%s", record, o.Code, o.All())
			}
			break
		}
		if !n.exists(firstboot.BegunPath) || n.exists(firstboot.FinishedPath) {
			t.Fatalf("record %d: %s is missing, or %s exists", record, firstboot.BegunPath, firstboot.FinishedPath)
		}
		n.useUnit()
		out := n.boot(0)
		contains(t, out.Stdout, "was interrupted; continuing it", "bootstrap finished: committed")
		f := n.finished()
		if !f.OK || f.Outcome != "committed" || f.Generation == 0 || n.exists(firstboot.BegunPath) {
			t.Fatalf("record %d: finished: %+v", record, f)
		}
		n.Healthy(f.Generation)
		n.Must(0, "verify")
		contains(t, n.boot(0).Stdout, "nothing to recover", "nothing to resume")
		n.Clear()
		n = p.fresh(t)
	}
}

// useUnit makes the unit run the program without fault injection.
func (n *testNode) useUnit() {
	n.T.Helper()
	path := "/etc/systemd/system/" + firstboot.UnitName
	n.Write(path, strings.ReplaceAll(n.read(path), "kollet-faults", "kollet"))
}

func shutDownBootstrap(t *testing.T, p *protocol) {
	n := p.fresh(t)
	p.registry.Stop()
	cmd := n.Command("bootstrap", "--wait", "1m")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, cmd.Start())
	n.Await("bootstrap waits for the registry", func() bool {
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
	n.Healthy(n.finished().Generation)
}

func killedAgain(t *testing.T, p *protocol) {
	n := p.fresh(t)
	n.Must(0, "bootstrap")
	p.configure(n, "v2", "two", "")
	if _, killed := n.KilledAt(6, "bootstrap"); !killed {
		t.Fatal("the bootstrap was not killed")
	}
	n.useUnit()
	o := n.boot(1)
	contains(t, o.Stderr, "the bootstrap was interrupted, and the node is on generation 1 as before")
	n.Healthy(1)
	if f := n.finished(); f.OK || f.Generation != 1 {
		t.Errorf("finished: %+v", f)
	}
	n.boot(0)
	n.Must(0, "bootstrap")
	if word := answer(t, "127.0.0.1:7001"); word != "two" {
		t.Errorf("alpha answers %q", word)
	}
}

// powerLoss kills an upgrade at every second record, and then everything, as a power loss
// does. The restarted engine starts the containers with a
// restart policy, and the commands of a boot do the rest.
func powerLoss(t *testing.T, p *protocol) {
	n := p.fresh(t)
	n.Must(0, "bootstrap")
	tags := []string{"v1", "v2"}
	at, cuts := 0, 0
	for record := 1; ; record += 2 {
		p.configure(n, tags[1-at], tags[1-at], "")
		if _, killed := n.KilledAt(record, "upgrade"); !killed {
			break
		}
		cuts++
		p.cutPower(n)
		n.boot(0)
		n.Await("all services are healthy", func() bool { return n.Status().Healthy })
		at = p.whole(t, n, tags)
	}
	if cuts < 8 {
		t.Fatalf("lost power only %d times", cuts)
	}
}

// cutPower ends the engine and every container, and starts the engine again.
func (p *protocol) cutPower(n *testNode) {
	n.T.Helper()
	p.engine.LosePower()
	machine.NewBoot(n.T)
	p.engine.Start()
}
