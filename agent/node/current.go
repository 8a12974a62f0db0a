package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/durable"
	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/nodefile"
)

// EngineName returns the name of the engine that a node uses: that of the
// current generation; without one, that on which an upgrade to the first was
// interrupted; else the one in the node file, which may be unknown. That is also
// returned with the error if the current generation cannot be read.
func EngineName(root, nodeFile string) (string, error) {
	n := Node{Root: root, NodeFile: nodeFile}
	current, err := n.Current()
	if err != nil {
		return nodefile.Engine(n.NodeFilePath()), err
	}
	if current.Engine != "" {
		return current.Engine, nil
	}
	_, records, _ := n.LastJournal() // the command reports what is wrong with it
	if len(records) > 0 && records[0].Engine != "" && !journal.Ended(records) {
		return records[0].Engine, nil
	}
	return nodefile.Engine(n.NodeFilePath()), nil
}

// Current returns the generation that runs, or generation 0 if none does. If its record
// cannot be read, no command can tell what the node should run: that needs an operator.
func (n *Node) Current() (generation.Generation, error) {
	number, err := n.CurrentNumber()
	if err != nil {
		return generation.Generation{}, err
	}
	current, err := n.Store().LoadCurrent(number)
	return current, n.Unreadable(number, err)
}

// CurrentNumber returns the number of the generation that runs, 0 if none does. If the link to
// it was lost, the journals tell.
func (n *Node) CurrentNumber() (int, error) {
	number, linked, err := n.Store().Linked()
	if err != nil {
		link := n.Store().Link()
		return 0, NeedsOperator{Err: fmt.Errorf("%w; run `mv %s %s.lost`, then `kollet recover`", err, link, link)}
	}
	if linked {
		return number, nil
	}
	return n.journalled()
}

// Unreadable adds what to do about a generation that cannot be read, and from which the node
// cannot continue therefore.
func (n *Node) Unreadable(number int, err error) error {
	if _, other := errors.AsType[*format.UnknownError](err); err == nil || other {
		return err // another version can read it, and the error says so
	}
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		return durable.Explain(err) // nothing is wrong with it
	}
	return NeedsOperator{Err: fmt.Errorf("%w; restore it from a backup, or run %s", err, n.continueWithout(number))}
}

// continueWithout returns the commands with which a node continues without a generation: from the newest one
// before it that can be read, else from none. Either way the upgrade finds the containers of the
// lost one by their labels, and replaces them.
func (n *Node) continueWithout(lost int) string {
	from := 0
	kept, _ := n.Store().List()
	for _, number := range kept {
		if _, err := n.Store().Load(number); err == nil && number < lost {
			from = number
		}
	}
	commands := ""
	if open, err := n.Interrupted(); err == nil && open { // without the lost one, nothing can be undone
		last, _, _ := n.LastJournal()
		path := filepath.Join(n.Journals(), fmt.Sprintf("%06d.jsonl", last))
		commands = fmt.Sprintf("`mv %s %s.lost`, ", path, path)
	}
	upgrade := "kollet upgrade"
	if _, err := os.Stat(n.Store().Path(lost)); err != nil { // what its containers mount is gone, too
		upgrade += " --force"
	}
	return fmt.Sprintf("%s`ln -sfn generations/%06d %s`, then `%s`", commands, from, n.Store().Link(), upgrade)
}

// journalled returns the generation that runs on a node without a link to it, as the last
// journal that begins says: the one that it went to, if it has committed and ended, else the
// one that it came from. Before a first bootstrap has ended, that is generation 0. If the
// newest generation has no journal, nobody knows how its upgrade ended.
func (n *Node) journalled() (int, error) {
	kept, err := n.Store().List()
	if err != nil || len(kept) == 0 {
		return 0, err
	}
	newest := kept[len(kept)-1]
	numbers, err := journal.List(n.Journals())
	if err != nil {
		return 0, err
	}
	if len(numbers) == 0 || numbers[len(numbers)-1] < newest {
		return 0, n.unlinked(newest, fmt.Errorf("no journal says that of generation %d", newest))
	}
	for _, number := range slices.Backward(numbers) {
		records, err := journal.Read(n.Journals(), number)
		switch {
		case err != nil:
			return 0, n.unlinked(newest, err)
		case len(records) == 0 || records[0].Event != journal.Begin: // a crash left it
		case journal.Ended(records) && journal.HasCommitted(records):
			return number, nil
		default:
			return records[0].From, nil
		}
	}
	return 0, n.unlinked(newest, fmt.Errorf("no journal says that of generation %d", newest))
}

// unlinked says what to do about a link that was lost, if the journals do not tell where it
// pointed.
func (n *Node) unlinked(newest int, why error) error {
	link := n.Store().Link()
	return NeedsOperator{Err: fmt.Errorf("%s is missing, and it is not known which generation runs: %w; "+
		"restore the link, as with `ln -s generations/%06d %s` if generation %d runs, or move %s away if nothing runs from it",
		link, why, newest, link, newest, n.Generations())}
}

// LostLink returns an error if the link to the generation that runs was lost.
func (n *Node) LostLink() error {
	number, err := n.CurrentNumber()
	_, linked, lerr := n.Store().Linked() // after it: a first bootstrap makes the link before it ends
	if err != nil || lerr != nil || number == 0 || linked {
		return nil // Current reports the errors
	}
	return fmt.Errorf("%s is missing; the journals say that generation %d runs, and `kollet recover` restores the link", n.Store().Link(), number)
}

// RestoreLink restores the link to the generation that runs, if it was lost. Without it the
// journals tell, so it costs nothing if that fails.
func (n *Node) RestoreLink() {
	if n.LostLink() == nil {
		return
	}
	number, err := n.CurrentNumber()
	if err == nil {
		err = n.Store().SetCurrent(number)
	}
	if err != nil {
		n.Note("", "warning: %v", err)
		return
	}
	n.Note("", "%s was missing; it points to generation %d again, which runs according to the journals", n.Store().Link(), number)
}
