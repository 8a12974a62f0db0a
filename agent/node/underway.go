package node

import (
	"fmt"
	"slices"

	"github.com/kollet/kollet/agent/journal"
)

// Underway says what kollet itself is doing to the node, or has left undone.
type Underway struct {
	Running     string `json:"running,omitempty"`        // the command that is changing the node, with its process
	Interrupted bool   `json:"interrupted"`              // an upgrade waits for `kollet recover`
	Committed   bool   `json:"committed,omitempty"`      // the interrupted upgrade had committed
	To          int    `json:"interrupted_to,omitempty"` // the generation that it was going to
	Problem     string `json:"problem,omitempty"`        // why the last upgrade's journal cannot be read
}

// Interruption says that an upgrade was interrupted, and what ends it; empty if none was.
func (u Underway) Interruption() string {
	switch {
	case !u.Interrupted:
		return ""
	case u.Committed:
		return fmt.Sprintf("the upgrade to generation %d has committed, but was interrupted; `kollet recover` finishes it", u.To)
	}
	return "an upgrade was interrupted; run `kollet recover`"
}

// Underway reads it without the lock.
func (n *Node) Underway() Underway {
	u := Underway{Running: n.Running()}
	last, records, err := n.LastJournal()
	if err != nil {
		u.Problem = err.Error()
	}
	open := err == nil && last > 0 && !journal.Ended(records)
	if open && u.Running == "" {
		u.Running = n.Running() // it may have begun in between
	}
	if u.Interrupted = open && u.Running == ""; u.Interrupted {
		u.Committed, u.To = journal.HasCommitted(records), last
	}
	return u
}

// CutOver lists the services that an upgrade has begun to cut over, and that has not ended:
// until then their containers are its doing. A journal that cannot be read lists none.
func (n *Node) CutOver() []string {
	_, records, err := n.LastJournal()
	if err != nil || journal.Ended(records) {
		return nil
	}
	var services []string
	for _, r := range records {
		if r.Event == journal.Intent {
			services = append(services, r.Step.Services...)
		}
	}
	slices.Sort(services)
	return slices.Compact(services)
}
