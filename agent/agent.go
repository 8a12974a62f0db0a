// Package agent is the face of the agent: one method for each thing that a user
// asks of a node. The upgrade protocol is in agent/upgrade.
package agent

import "github.com/kollet/kollet/agent/node"

// Agent acts on one node.
type Agent struct {
	*node.Node
}

// New returns the agent of a node.
func New(n node.Node) *Agent { return &Agent{Node: &n} }
