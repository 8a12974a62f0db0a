package upgrade

import (
	"errors"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/target"
	"github.com/kollet/kollet/configs/redact"
)

// What refuses an upgrade is an error, and with --force a warning in the history.
func TestRefuse(t *testing.T) {
	reason := errors.New("check broker: it refused hunter2; start it")
	for name, c := range map[string]struct {
		force, recalled  bool
		err, said, wrote string
	}{
		"upgrade":  {false, false, "check broker: it refused hunter2; start it; `kollet upgrade --force` continues regardless", "", ""},
		"rollback": {false, true, "check broker: it refused hunter2; start it; `kollet rollback --force` continues regardless", "", ""},
		"forced": {true, false, "", "warning: continuing with --force: check broker: it refused <secret rabbit>; start it",
			"warning check continuing with --force: check broker: it refused <secret rabbit>; start it"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			n := &node.Node{Root: t.TempDir(), Host: idle(t), Report: func(e node.Event) { said = append(said, e.Text) }}
			j, err := journal.Create(n.Journals(), journal.Record{To: 2}, n.Host.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			tx := &transaction{node: n, journal: j, options: Options{Force: c.force}, started: []step{{kind: journal.Check}},
				target: &target.Target{Recalled: c.recalled, Redactor: redact.New(map[string]string{"rabbit": "hunter2"})}}
			got := ""
			if err := tx.refuse(reason); err != nil {
				got = err.Error()
			}
			if got != c.err || strings.Join(said, ", ") != c.said {
				t.Errorf("got %q, said %q", got, said)
			}
			records, err := journal.Read(n.Journals(), 2)
			if err != nil {
				t.Fatal(err)
			}
			wrote := ""
			for _, r := range records[1:] {
				wrote += string(r.Event) + " " + string(r.Step.Kind) + " " + r.Note
			}
			if wrote != c.wrote {
				t.Errorf("the journal has %q", wrote)
			}
		})
	}
}

// The command that continues is the one that was refused.
func TestCommandThatContinues(t *testing.T) {
	for want, c := range map[string]target.Target{
		"upgrade":    {Reason: "upgrade --tag adopt"},
		"adopt":      {Reason: "adopt"},
		"rollback":   {Reason: "rollback to 3", Recalled: true},
		"rollback 0": {Reason: "rollback to 0", Recalled: true, Returns: true},
	} {
		tx := &transaction{target: &c}
		if err := tx.refuse(errors.New("no")); err == nil || err.Error() != "no; `kollet "+want+" --force` continues regardless" {
			t.Errorf("%s: %v", want, err)
		}
	}
}
