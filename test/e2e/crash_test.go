package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/test/nodetest"
)

// TestCrash kills kollet right after each record of the journal: in an upgrade that
// succeeds, in one that is rolled back, and in the recovery from both. Each time, all
// services must end on the same generation.
func TestCrash(t *testing.T) {
	onBoth(t, killEverywhere)
}

func killEverywhere(t *testing.T, p *protocol) {
	pushTiny(t, p.registry, "test/tiny", "v1")
	pushTiny(t, p.registry, "test/tiny", "v2")
	t.Run("in an upgrade that succeeds", func(t *testing.T) {
		n := p.node(t)
		n.Must(0, "bootstrap")
		tags := []string{"v1", "v2"}
		at := 0 // index of the tag that runs
		killed := killAtEachRecord(t, n, func() { p.configure(n, tags[1-at], tags[1-at], "") }, func() {
			at = p.whole(t, n, tags)
		})
		if killed < 15 {
			t.Fatalf("killed only %d times", killed)
		}
	})
	t.Run("in an upgrade that is rolled back", func(t *testing.T) {
		n := p.node(t)
		n.Must(0, "bootstrap")
		killed := killAtEachRecord(t, n, func() {
			p.replaceCommand(n, "v2", `command: [leave, "127.0.0.1:7001", 50ms]`)
		}, func() {
			if at := p.whole(t, n, []string{"one", "none"}); at != 0 {
				t.Fatal("the node is on the failing generation")
			}
		})
		if killed < 15 {
			t.Fatalf("killed only %d times", killed)
		}
	})
}

// killAtEachRecord repeats an upgrade, kills it one record later each time, and
// recovers. After every second kill the recovery is killed twice as well, at its first
// and third record, before it may finish. configure writes the node file of the next
// upgrade; check checks the node. It returns how often an upgrade was killed.
func killAtEachRecord(t *testing.T, n *testNode, configure, check func()) int {
	t.Helper()
	for record := 1; ; record++ {
		configure()
		if o, killed := n.killedAt(record, "upgrade"); !killed {
			if o.Code > 1 {
				t.Fatalf("upgrade: exit status %d\n%s", o.Code, o.All())
			}
			check()
			return record - 1
		}
		if !n.Status().Interrupted {
			// This was the last record: the upgrade had finished.
			check()
			continue
		}
		if record%2 == 0 {
			n.killedAt(record+1, "recover")
			n.killedAt(record+3, "recover")
		}
		n.Must(0, "recover")
		check()
		if o := n.Must(0, "-o", "json", "recover"); strings.Contains(o.Stdout, `"found": true`) {
			t.Fatalf("the node still needs recovery:\n%s", o.Stdout)
		}
	}
}

// killedAt runs kollet-faults, which kills itself right after a record of the journal,
// and returns whether it did.
func (n *testNode) killedAt(record int, args ...string) (outcome, bool) {
	n.T.Helper()
	faulty := *n.Node // a copy, so that only this command is killed
	faulty.Program = nodetest.Program(n.T, "kollet-faults")
	faulty.Env = append(slices.Clone(faulty.Env), fmt.Sprintf("KOLLET_KILL_AT_RECORD=%d", record))
	var out strings.Builder
	cmd := faulty.Command(args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	_ = cmd.Run()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return outcome{Code: cmd.ProcessState.ExitCode(), Stderr: out.String()}, status.Signaled() && status.Signal() == syscall.SIGKILL
}

// whole requires a healthy node whose image, config file and answer belong to the same
// generation, and returns the index of the word that alpha answers.
func (p *protocol) whole(t *testing.T, n *testNode, words []string) int {
	t.Helper()
	s := n.Status()
	if !s.Healthy || s.Interrupted {
		t.Fatalf("status: %+v", s)
	}
	n.Must(0, "verify")
	p.onlyTheServices(t, n)
	word := answer(t, "127.0.0.1:7001")
	var history []agent.Entry
	n.Ask(&history, "history")
	for _, e := range history {
		if e.Outcome == "" || e.Outcome == journal.Stuck {
			t.Fatalf("the transaction to generation %d did not finish: %+v", e.Generation, e)
		}
	}
	image := n.Service("alpha").Image
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
