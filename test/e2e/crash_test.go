package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
)

// TestCrash kills kollet right after every record of the journal: of an upgrade
// that succeeds, of one that is rolled back, and of the recovery from both. The
// node must end wholly on one generation each time.
func TestCrash(t *testing.T) {
	onBoth(t, killEverywhere)
}

func killEverywhere(t *testing.T, p *protocol) {
	pushTiny(t, p.registry, "test/tiny", "v1")
	pushTiny(t, p.registry, "test/tiny", "v2")
	t.Run("in an upgrade that succeeds", func(t *testing.T) {
		n := p.node(t)
		n.must(0, "bootstrap")
		tags := []string{"v1", "v2"}
		at := 0 // which of them runs
		killed := killAtEachRecord(t, n, func() { p.configure(n, tags[1-at], tags[1-at], "") }, func() {
			at = p.whole(t, n, tags)
		})
		if killed < 15 {
			t.Fatalf("killed only %d times", killed)
		}
	})
	t.Run("in an upgrade that is rolled back", func(t *testing.T) {
		n := p.node(t)
		n.must(0, "bootstrap")
		killed := killAtEachRecord(t, n, func() {
			p.replaceCommand(n, "v2", `command: [leave, "127.0.0.1:7001", 50ms]`)
		}, func() {
			if at := p.whole(t, n, []string{"one", "none"}); at != 0 {
				t.Fatal("the node is on the generation that fails")
			}
		})
		if killed < 15 {
			t.Fatalf("killed only %d times", killed)
		}
	})
}

// killAtEachRecord runs an upgrade again and again, killed one record later each
// time, and recovers: once without disturbance, and once after the recovery
// itself was killed at its first record and then at its third. It returns how
// often an upgrade was killed.
func killAtEachRecord(t *testing.T, n *testNode, aim, check func()) int {
	t.Helper()
	for record := 1; ; record++ {
		aim()
		if o, killed := n.killedAt(record, "upgrade"); !killed {
			if o.code > 1 {
				t.Fatalf("upgrade: exit status %d\n%s", o.code, o.all())
			}
			check()
			return record - 1
		}
		if !n.status().Interrupted {
			// The last record of all: it had ended.
			check()
			continue
		}
		if record%2 == 0 {
			n.killedAt(record+1, "recover")
			n.killedAt(record+3, "recover")
		}
		n.must(0, "recover")
		check()
		if o := n.must(0, "-o", "json", "recover"); strings.Contains(o.stdout, `"found": true`) {
			t.Fatalf("there is still something to recover:\n%s", o.stdout)
		}
	}
}

// killedAt runs the program that kills itself after a record of the journal.
func (n *testNode) killedAt(record int, args ...string) (outcome, bool) {
	n.t.Helper()
	faulty := *n
	faulty.program = program(n.t, "kollet-faults")
	faulty.env = append(faulty.env, fmt.Sprintf("KOLLET_KILL_AT_RECORD=%d", record))
	var out strings.Builder
	cmd := faulty.command(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return outcome{code: cmd.ProcessState.ExitCode(), stderr: out.String()}, status.Signaled() && status.Signal() == syscall.SIGKILL
}

// whole wants a healthy node whose image, file and answer belong together, and
// returns which of the words it is on.
func (p *protocol) whole(t *testing.T, n *testNode, words []string) int {
	t.Helper()
	s := n.status()
	if !s.Healthy || s.Interrupted {
		t.Fatalf("status: %+v", s)
	}
	n.must(0, "verify")
	p.onlyTheServices(t, n)
	word := answer(t, "127.0.0.1:7001")
	var history []agent.Entry
	n.ask(&history, "history")
	for _, e := range history {
		if e.Outcome == "" || e.Outcome == journal.Stuck {
			t.Fatalf("generation %d has not ended: %+v", e.Generation, e)
		}
	}
	image := n.service("alpha").Image
	for i, w := range words {
		if w == word || w == "v1" && word == "one" {
			if strings.HasPrefix(w, "v") && !strings.HasSuffix(image, ":"+w) {
				t.Fatalf("mixed: image %s, file %s", image, word)
			}
			return i
		}
	}
	t.Fatalf("alpha answers %q", word)
	return 0
}
