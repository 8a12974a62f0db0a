package e2e

import (
	"os"
	"testing"

	"github.com/kollet/kollet/agent/node"
)

// TestDamagedJournal does what the error about a damaged journal says, after kollet was killed in a
// cutover.
func TestDamagedJournal(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		pushTiny(t, p.registry, "test/tiny", "v2")
		n := p.node(t)
		n.Must(0, "bootstrap")
		p.configure(n, "v2", "two", "")
		if o, killed := n.KilledAt(afterCutover, "upgrade"); !killed {
			t.Fatalf("not killed: %s", o.All())
		}
		contains(t, n.Must(0, "status").Stdout, "alpha", "the container of generation 2 runs until `kollet recover` undoes the upgrade")
		journal := n.Path(node.StateDir + "/journal/000002.jsonl")
		check(t, os.WriteFile(journal, []byte("damaged\n"), 0o600))
		for _, command := range []string{"recover", "upgrade", "gc"} {
			contains(t, n.Must(4, command).Stderr, "move the file out of its directory, see with `kollet verify` what differs, then let `kollet upgrade` repair it")
		}
		contains(t, n.Must(1, "verify").Stdout, "alpha", "damaged record")
		check(t, os.Rename(journal, n.Path("/damaged")))
		n.Must(0, "upgrade")
		n.Healthy(3)
		n.Must(0, "verify")
		if word := answer(t, "127.0.0.1:7001"); word != "two" {
			t.Errorf("alpha answers %q", word)
		}
	})
}

// TestEngineOfInterrupted recovers a first bootstrap on the engine on which it began, although the
// node file does not name that any longer.
func TestEngineOfInterrupted(t *testing.T) {
	onDocker(t, func(t *testing.T, p *protocol) {
		pushTiny(t, p.registry, "test/tiny", "v1")
		for _, text := range []string{"engine: [\n", "profile: none\nservices: {}\n"} {
			n := p.node(t)
			if o, killed := n.KilledAt(staged, "bootstrap"); !killed {
				t.Fatalf("not killed: %s", o.All())
			}
			labels := map[string]string{node.LabelNode: n.Path(node.StateDir)}
			if all, err := n.Engine.List(t.Context(), labels); err != nil || len(all) != 2 {
				t.Fatalf("staged are %+v, %v", all, err)
			}
			n.Write(node.DefaultNodeFile, text)
			contains(t, n.Must(0, "recover").Stdout, "discarded")
			if all, err := n.Engine.List(t.Context(), labels); err != nil || len(all) > 0 {
				t.Errorf("left are %+v, %v", all, err)
			}
		}
	})
}

// staged is the record that says that all is staged.
const staged = 9
