// Package agent is the face of the agent: one method for each thing that a user
// asks of a node. agent/upgrade holds the upgrade protocol, agent/plan what an
// upgrade would change, agent/node what all of them stand on.
package agent

import "github.com/kollet/kollet/agent/node"

// Agent acts on one node.
type Agent struct {
	node *node.Node
}

// New returns the agent of a node.
func New(n node.Node) *Agent {
	n.Engine = n.Recognising()
	return &Agent{node: &n}
}

// Root is the prefix of kollet's own paths on this node.
func (a *Agent) Root() string { return a.node.Root }

// NodeFile is the path of the node file below Root.
func (a *Agent) NodeFile() string { return a.node.NodeFile }

// Host is the node's name.
func (a *Agent) Host() string { return a.node.Name }
