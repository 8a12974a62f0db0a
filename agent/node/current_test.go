package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/journal"
)

// withJournals returns a node with the records of these generations and these journals, of which
// nil is one that a crash left empty. It has no link.
func withJournals(t *testing.T, kept []int, journals map[string][]journal.Record) *Node {
	t.Helper()
	n := &Node{Root: t.TempDir(), Host: host.Real()}
	for _, number := range kept {
		if err := n.Store().Write(generation.Generation{Number: number, Engine: "containerd"}, nil, func(string) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for name, records := range journals {
		var lines []byte
		for i, r := range records {
			if i == 0 {
				r.Format = journal.Format
			}
			line, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			lines = append(append(lines, line...), '\n')
		}
		err := errors.Join(os.MkdirAll(n.Journals(), 0o700), os.WriteFile(filepath.Join(n.Journals(), name+".jsonl"), lines, 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// Without its link, the node is on the generation that the last journal says.
func TestLostLink(t *testing.T) {
	begin := func(from, to int) journal.Record {
		return journal.Record{Event: journal.Begin, From: from, To: to}
	}
	commit, rendered := journal.Record{Event: journal.Commit}, journal.Record{Event: journal.Done, Step: journal.Step{Kind: journal.Render}}
	end := func(o journal.Outcome) journal.Record { return journal.Record{Event: journal.End, Outcome: o} }
	committed := func(from, to int) []journal.Record {
		return []journal.Record{begin(from, to), rendered, commit, end(journal.Committed)}
	}
	for name, c := range map[string]struct {
		kept     []int
		journals map[string][]journal.Record
		want     int
		problem  string
	}{
		"a new node":                    {nil, nil, 0, ""},
		"nothing was rendered":          {nil, map[string][]journal.Record{"000001": {begin(0, 1), end(journal.Discarded)}}, 0, ""},
		"a first bootstrap":             {[]int{1}, map[string][]journal.Record{"000001": {begin(0, 1), rendered}}, 0, ""},
		"a first bootstrap, committed":  {[]int{1}, map[string][]journal.Record{"000001": {begin(0, 1), rendered, commit}}, 0, ""},
		"a first bootstrap, given up":   {[]int{1}, map[string][]journal.Record{"000001": {begin(0, 1), rendered, end(journal.RolledBack)}}, 0, ""},
		"committed":                     {[]int{1, 2}, map[string][]journal.Record{"000001": committed(0, 1), "000002": committed(1, 2)}, 2, ""},
		"rolled back":                   {[]int{1, 2}, map[string][]journal.Record{"000001": committed(0, 1), "000002": {begin(1, 2), rendered, end(journal.RolledBack)}}, 1, ""},
		"interrupted":                   {[]int{1, 2}, map[string][]journal.Record{"000001": committed(0, 1), "000002": {begin(1, 2), rendered}}, 1, ""},
		"an empty journal":              {[]int{1}, map[string][]journal.Record{"000001": committed(0, 1), "000002": nil}, 1, ""},
		"an empty journal that ended":   {[]int{1}, map[string][]journal.Record{"000001": committed(0, 1), "000002": {end(journal.Discarded)}}, 1, ""},
		"the journals are lost, too":    {[]int{1, 2}, nil, 0, "no journal says that of generation 2"},
		"the last journal is lost, too": {[]int{1, 2}, map[string][]journal.Record{"000001": committed(0, 1)}, 0, "no journal says that of generation 2"},
		"a damaged journal":             {[]int{1, 2}, map[string][]journal.Record{"000001": committed(0, 1), "000002": {commit}}, 0, "damaged record"},
		"the record is lost, too":       {[]int{1}, map[string][]journal.Record{"000002": committed(1, 2)}, 2, "manifest.json is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			n := withJournals(t, c.kept, c.journals)
			number, err := n.CurrentNumber()
			if err == nil {
				_, err = n.Current()
			}
			if number != c.want || (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
				t.Fatalf("got %d, %v, want %d, %q", number, err, c.want, c.problem)
			}
			if _, operator := errors.AsType[NeedsOperator](err); err != nil && !operator {
				t.Errorf("no operator is asked for: %v", err)
			}
			if c.problem != "" {
				return
			}
			if lost := n.LostLink(); (lost != nil) != (c.want > 0) {
				t.Errorf("lost: %v", lost)
			}
			n.RestoreLink()
			if linked, _, err := n.Store().Linked(); err != nil || linked != c.want || n.LostLink() != nil {
				t.Errorf("restored: %d, %v, %v", linked, err, n.LostLink())
			}
		})
	}
}

// What cannot be the link is moved away, and then the journals tell.
func TestDamagedLink(t *testing.T) {
	records := []journal.Record{{Event: journal.Begin, To: 1}, {Event: journal.Commit}, {Event: journal.End, Outcome: journal.Committed}}
	for name, damage := range map[string]func(link string) error{
		"points to no generation": func(link string) error { return os.Symlink("elsewhere", link) },
		"a directory":             func(link string) error { return os.Mkdir(link, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			n := withJournals(t, []int{1}, map[string][]journal.Record{"000001": records})
			link := n.Store().Link()
			if err := damage(link); err != nil {
				t.Fatal(err)
			}
			if _, err := n.Current(); err == nil || !strings.HasSuffix(err.Error(), "; run `mv "+link+" "+link+".lost`, then `kollet recover`") {
				t.Errorf("got %v", err)
			}
			if err := os.Rename(link, link+".lost"); err != nil {
				t.Fatal(err)
			}
			if current, err := n.Current(); err != nil || current.Number != 1 {
				t.Errorf("got generation %d, %v", current.Number, err)
			}
		})
	}
}

// A record that cannot be opened because too many files are open needs no backup.
func TestCurrentWithFewFiles(t *testing.T) {
	n := withJournals(t, []int{1}, nil)
	if err := n.Store().SetCurrent(1); err != nil {
		t.Fatal(err)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 0, Max: before.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	_, err := n.Current()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if _, operator := errors.AsType[NeedsOperator](err); operator || err == nil || !strings.Contains(err.Error(), "more open files") || strings.Contains(err.Error(), "backup") {
		t.Errorf("got %v", err)
	}
}
