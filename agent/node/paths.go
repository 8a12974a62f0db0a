package node

import "path/filepath"

// Paths on a node, below Root.
const (
	StateDir        = "/var/lib/kollet"
	DefaultNodeFile = "/etc/kollet/node.yaml"
	OverridesDir    = "/etc/kollet/config"
	TemplatesDir    = "/etc/kollet/templates"
	InstanceData    = "/run/cloud-init/instance-data.json" // cloud-init: doc/rtd/explanation/instancedata.rst
)

// Path returns a path of kollet's own below the node's root.
func (n *Node) Path(p string) string { return filepath.Join(n.Root, p) }

// State is the state directory.
func (n *Node) State() string { return n.Path(StateDir) }

// Journals is the directory of the journals.
func (n *Node) Journals() string { return filepath.Join(n.State(), "journal") }

// Generations is the directory of the generations.
func (n *Node) Generations() string { return filepath.Join(n.State(), "generations") }

// NodeFilePath is where the node file is.
func (n *Node) NodeFilePath() string {
	if n.NodeFile == "" {
		return n.Path(DefaultNodeFile)
	}
	return n.Path(n.NodeFile)
}
