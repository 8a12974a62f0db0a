package node

import (
	"slices"

	"github.com/kollet/kollet/agent/journal"
)

// Underway says what kollet itself is doing to the node, or has left undone.
type Underway struct {
	Running     string `json:"running,omitempty"` // the command that is changing the node, with its process
	Interrupted bool   `json:"interrupted"`       // an upgrade waits for `kollet recover`
	Problem     string `json:"problem,omitempty"` // why the last upgrade's journal cannot be read
}

// Underway reads it without the lock.
func (n *Node) Underway() Underway {
	u := Underway{Running: n.Running()}
	open, err := n.Interrupted()
	if err != nil {
		u.Problem = err.Error()
	}
	if open && u.Running == "" {
		u.Running = n.Running() // it may have begun in between
	}
	u.Interrupted = open && u.Running == ""
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
