package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
)

// TestCrash kills kollet right after each record of the journal: in an upgrade that
// succeeds, in one that is rolled back, and in the recovery from both. Each time, all
// services must end on the same generation, and the recovery must have done what
// docs/reliability.md says. make test does so on Docker, and make test-long on each engine.
func TestCrash(t *testing.T) {
	onDocker(t, killEverywhere)
}

func killEverywhere(t *testing.T, p *protocol) {
	pushTiny(t, p.registry, "test/tiny", "v1")
	pushTiny(t, p.registry, "test/tiny", "v2")
	t.Run("in an upgrade that succeeds", func(t *testing.T) {
		n := p.node(t)
		n.Must(0, "bootstrap")
		tags := []string{"v1", "v2"}
		at := 0 // index of the tag that runs
		points := killAtEachRecord(t, n, func() { p.configure(n, tags[1-at], tags[1-at], "") }, func() {
			at = p.whole(t, n, tags)
		})
		asDocumented(t, points, upgradeTable)
	})
	t.Run("in an upgrade that is rolled back", func(t *testing.T) {
		n := p.node(t)
		n.Must(0, "bootstrap")
		points := killAtEachRecord(t, n, func() {
			p.replaceCommand(n, "v2", `command: [leave, "127.0.0.1:7001", 50ms]`)
		}, func() {
			if at := p.whole(t, n, []string{"one", "none"}); at != 0 {
				t.Fatal("the node is on the failing generation")
			}
		})
		failed := slices.IndexFunc(points, func(k killPoint) bool { return strings.HasPrefix(k.record, string(journal.Failed)) })
		if failed < 0 {
			t.Fatalf("not killed after the failure:\n%s", strings.Join(rows(points), "\n"))
		}
		asDocumented(t, points[failed:], "after a record of a rollback")
		if until := documentedPoints(t, upgradeTable); failed > len(until) || !slices.Equal(points[:failed], until[:failed]) {
			t.Errorf("before the failure the kill points are not those of an upgrade:\n%s", strings.Join(rows(points[:failed]), "\n"))
		}
	})
}

// killPoint is a record after which an upgrade was killed, and what its recovery did.
type killPoint struct {
	record   string
	recovery string // what it undid, last first, or that it finished the upgrade
	end      string // the generation on which the node ended
}

// upgradeTable is the first heading of the table in docs/reliability.md.
const upgradeTable = "after a record of an upgrade"

// asDocumented requires the kill points in the table of docs/reliability.md that begins with
// a heading.
func asDocumented(t *testing.T, points []killPoint, heading string) {
	t.Helper()
	if !slices.Equal(points, documentedPoints(t, heading)) {
		t.Errorf("docs/reliability.md has other kill points; these are right:\n%s", strings.Join(rows(points), "\n"))
	}
}

func documentedPoints(t *testing.T, heading string) []killPoint {
	t.Helper()
	var points []killPoint
	for _, cells := range documentedRows(t, heading) {
		points = append(points, killPoint{cells[0], cells[1], cells[2]})
	}
	return points
}

func rows(points []killPoint) []string {
	var all []string
	for _, k := range points {
		all = append(all, fmt.Sprintf("| %s | %s | %s |", k.record, k.recovery, k.end))
	}
	return all
}

// documentedRows returns the cells of a table of docs/reliability.md by its first heading.
func documentedRows(t *testing.T, heading string) [][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/reliability.md")
	check(t, err)
	_, table, found := strings.Cut(string(page), "| "+heading+" |")
	if !found {
		t.Fatalf("docs/reliability.md has no table that begins with %q", heading)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	var rows [][]string
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[2:] {
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

// killAtEachRecord repeats an upgrade, kills it one record later each time, and
// recovers. After every second kill the recovery is killed twice as well, at its first
// and third record, before it may finish. configure writes the node file of the next
// upgrade; check checks the node. It returns where an upgrade was killed.
func killAtEachRecord(t *testing.T, n *testNode, configure, check func()) []killPoint {
	t.Helper()
	var points []killPoint
	for record := 1; ; record++ {
		configure()
		if o, killed := n.KilledAt(record, "upgrade"); !killed {
			if o.Code > 1 {
				t.Fatalf("upgrade: exit status %d\n%s", o.Code, o.All())
			}
			check()
			return points
		}
		before := n.lastJournal()
		if !n.Status().Interrupted {
			// This was the last record: the upgrade had finished.
			check()
			continue
		}
		if record%2 == 0 {
			n.KilledAt(record+1, "recover")
			n.KilledAt(record+3, "recover")
		}
		n.Must(0, "recover")
		check()
		points = append(points, pointOf(before, n.lastJournal()[len(before):]))
		if o := n.Must(0, "-o", "json", "recover"); strings.Contains(o.Stdout, `"found": true`) {
			t.Fatalf("the node still needs recovery:\n%s", o.Stdout)
		}
	}
}

// pointOf tells a kill point by the records before the kill and those of the recovery. What
// a recovery that was killed had undone may be undone again.
func pointOf(before, recovery []journal.Record) killPoint {
	last := before[len(before)-1]
	k := killPoint{record: strings.TrimSpace(string(last.Event) + " " + last.Step.Text(journal.Intent)), end: "old"}
	var undone []string
	for _, r := range recovery {
		if r.Event == journal.Undone && !slices.Contains(undone, r.Step.String()) {
			undone = append(undone, r.Step.String())
		}
	}
	k.recovery = "undoes " + strings.Join(undone, ", ")
	switch {
	case journal.HasCommitted(before):
		k.recovery, k.end = "finishes the upgrade", "new"
	case len(undone) == 0:
		k.recovery = "ends the upgrade"
	}
	return k
}

// lastJournal returns the records of the node's last journal.
func (n *testNode) lastJournal() []journal.Record {
	n.T.Helper()
	dir := (&node.Node{Root: n.Root}).Journals()
	all, err := journal.List(dir)
	check(n.T, err)
	records, err := journal.Read(dir, all[len(all)-1])
	check(n.T, err)
	return records
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
