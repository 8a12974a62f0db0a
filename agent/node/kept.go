package node

import (
	"slices"

	"github.com/kollet/kollet/agent/journal"
)

// Kept lists the generations that are on this node and were committed, in order: a rollback
// can return to them. Others may be there because an upgrade to them has not ended, or
// because guests run that they started. Without a journal that can be read, a generation
// counts as committed.
func (n *Node) Kept() ([]int, error) {
	numbers, err := n.Store().List()
	return slices.DeleteFunc(numbers, func(number int) bool {
		records, err := journal.Read(n.Journals(), number)
		return err == nil && !(journal.Ended(records) && journal.HasCommitted(records))
	}), err
}
