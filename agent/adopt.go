package agent

import (
	"context"

	"github.com/kollet/kollet/agent/adopt"
)

// ProposeAdoption reads the containers of kolla-ansible on this node, and proposes a node file
// with their services. It changes nothing.
func (a *Agent) ProposeAdoption(ctx context.Context, opts adopt.Options) (adopt.Proposal, error) {
	return adopt.Read(ctx, a.node, opts)
}

// WriteProposed writes a proposed node file, unless there is one.
func (a *Agent) WriteProposed(p adopt.Proposal) error {
	err := p.Write(a.node)
	if err == nil {
		a.node.Note("", "wrote %s", a.node.NodeFilePath())
	}
	return err
}
