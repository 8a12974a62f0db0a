package node

import "github.com/kollet/kollet/agent/generation"

// Key returns the key of the node's digests. A node without generations has none; then it is a
// new one, which KeepKey writes with the first generation.
func (n *Node) Key() (generation.Key, error) {
	key, err := n.Store().Key()
	if err != nil || key != nil {
		n.newKey = nil
		return key, err
	}
	if n.newKey == nil {
		n.newKey = generation.NewKey()
	}
	return n.newKey, nil
}

// KeepKey writes the key if Key returned a new one. The caller holds the lock.
func (n *Node) KeepKey() error {
	if n.newKey == nil {
		return nil
	}
	if err := n.Store().KeepKey(n.newKey); err != nil {
		return err
	}
	n.newKey = nil
	return nil
}
