package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/guest"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// aviary is an engine whose libvirt runs a canary, a real process.
type aviary struct {
	containers.Engine
	n        *cutoverNode
	start    string               // why it does not start; empty: it does
	output   string               // of its console
	stops    bool                 // the command that removes it ends its process
	forgets  bool                 // libvirt forgets it when it is asked to
	lists    bool                 // libvirt lists it
	onOutput func(bird *exec.Cmd) // called when the console is read
	bird     *exec.Cmd            // the canary
	known    bool                 // to libvirt
	commands []string             // that were run
	env      map[string]string    // they had
}

func (a *aviary) List(context.Context, map[string]string) ([]containers.Container, error) {
	return []containers.Container{{ID: "libvirt", State: containers.StateRunning}}, nil
}

func (a *aviary) Exec(ctx context.Context, _ string, e containers.Exec) (int, error) {
	a.commands = append(a.commands, e.Argv[0])
	a.env = e.Env
	switch e.Argv[0] {
	case "start":
		if a.start != "" {
			_, _ = io.WriteString(e.Stderr, a.start)
			return 1, nil
		}
		a.bird = a.n.start("/machine", loop)
		a.n.canary(a.bird.Process.Pid, 2)
		a.known = a.lists
	case "output":
		if a.onOutput != nil && ctx.Err() == nil {
			a.onOutput(a.bird)
		}
		_, _ = io.WriteString(e.Stdout, a.output)
	case "stop":
		if a.bird != nil && a.stops {
			a.kill()
		}
		if a.forgets {
			a.known = false
		}
	case "list":
		if a.known {
			_, _ = io.WriteString(e.Stdout, "uuid-a\n"+guest.CanaryUUID+"\n")
		}
	}
	return 0, nil
}

func (a *aviary) kill() {
	_ = a.bird.Process.Kill()
	_ = a.bird.Wait()
	a.n.write(fmt.Sprintf("proc/%d/cmdline", a.bird.Process.Pid), "")
}

// canary makes a process of the made-up /proc a canary of a generation.
func (c *cutoverNode) canary(pid, generation int) {
	c.Helper()
	c.guestOf(pid, generation, guest.CanaryName, guest.CanaryUUID)
}

func TestCanary(t *testing.T) {
	for name, c := range map[string]struct {
		aviary
		want  string // the error
		sends string // the commands
	}{
		"boots":         {aviary: aviary{output: "SeaBIOS (version 1.16)\r\n", stops: true, forgets: true, lists: true}, sends: "stop list start output list stop list"},
		"is not listed": {aviary: aviary{output: "SeaBIOS", stops: true, forgets: true}, want: "nova-libvirt: the canary failed: nova-libvirt does not list it; last lines of its output:\n  | SeaBIOS"},
		"does not start": {aviary: aviary{start: "error: no emulator", stops: true, forgets: true},
			want: "nova-libvirt: the canary failed: start: exit status 1: error: no emulator"},
		"prints something else": {aviary: aviary{output: "one\r\ntwo\r\n", stops: true, forgets: true, lists: true},
			want: "nova-libvirt: the canary failed: its output had no \"SeaBIOS\" within 300ms; last lines of its output:\n  | one\n  | two"},
		"has to be killed":    {aviary: aviary{output: "SeaBIOS", forgets: true, lists: true}, sends: "stop list start output list stop stop list"},
		"cannot be forgotten": {aviary: aviary{output: "SeaBIOS", stops: true, lists: true}, want: "nova-libvirt: the canary failed: remove it: nova-libvirt still lists it"},
	} {
		t.Run(name, func(t *testing.T) {
			a := c.aviary
			a.n = newCutoverNode(t)
			a.n.guest(20, "a")
			tx, s := canaryTransaction(t, a.n.node, &a)
			err := tx.tryCanary(t.Context(), s)
			if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if sent := strings.Join(a.commands, " "); c.sends != "" && sent != c.sends {
				t.Errorf("sent %q, want %q", sent, c.sends)
			}
			if a.bird != nil && !ended(t, a.bird) {
				t.Error("the canary runs")
			}
			if a.env["KOLLET_CANARY_NAME"] != guest.CanaryName || a.env["KOLLET_CANARY_UUID"] != guest.CanaryUUID {
				t.Errorf("environment: %v", a.env)
			}
		})
	}
}

// A canary whose process exits while it boots has failed at once.
func TestCanaryExits(t *testing.T) {
	a := &aviary{n: newCutoverNode(t), output: "nothing", forgets: true, lists: true}
	a.onOutput = func(*exec.Cmd) { a.kill() }
	tx, s := canaryTransaction(t, a.n.node, a)
	tx.to.Services[0].Guests.Canary.Timeout = time.Minute
	if err := tx.tryCanary(t.Context(), s); err == nil || !strings.Contains(err.Error(), "has exited; last lines of its output:\n  | nothing") {
		t.Errorf("got %v", err)
	}
}

// When verify is interrupted, the canary is still removed.
func TestCanaryInterrupted(t *testing.T) {
	a := &aviary{n: newCutoverNode(t), stops: true, forgets: true, lists: true}
	ctx, cancel := context.WithCancel(t.Context())
	a.onOutput = func(*exec.Cmd) { cancel() }
	tx, s := canaryTransaction(t, a.n.node, a)
	tx.to.Services[0].Guests.Canary.Timeout = time.Minute
	if err := tx.tryCanary(ctx, s); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if !ended(t, a.bird) || a.known {
		t.Error("the canary is still there")
	}
}

// Recovery finds the canary of an upgrade that was killed, and only if the upgrade
// got to it.
func TestSweepCanary(t *testing.T) {
	for _, verified := range []bool{false, true} {
		a := &aviary{n: newCutoverNode(t), stops: true, forgets: true, lists: true}
		tx, _ := canaryTransaction(t, a.n.node, a)
		if _, err := a.Exec(t.Context(), "", containers.Exec{Argv: []string{"start"}}); err != nil {
			t.Fatal(err)
		}
		if verified {
			tx.started = []step{{kind: journal.Verify}}
		}
		tx.sweepCanary(t.Context(), 2)
		if ended(t, a.bird) != verified {
			t.Errorf("verify was started: %v; the canary ended: %v", verified, !verified)
		}
	}
}

func canaryTransaction(t *testing.T, n *node.Node, engine containers.Engine) (*transaction, generation.Service) {
	t.Helper()
	n.Engine = engine
	tx := fitTransaction(t, n, func(_, to *generation.Service) {
		to.Guests = &nodefile.Guests{List: []string{"list"}, Canary: nodefile.Canary{
			Enabled: true, Start: []string{"start"}, Output: []string{"output"}, Expect: "SeaBIOS", Stop: []string{"stop"}, Timeout: 300 * time.Millisecond,
		}}
	})
	if !tx.bootsCanary(tx.to.Services[0]) {
		t.Fatal("no canary would be booted")
	}
	return tx, tx.to.Services[0]
}
