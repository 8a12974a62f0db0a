package agent

import "fmt"

// Where says where the node is, for when it is not known how a command ended. It asks
// nothing of the engine.
func (a *Agent) Where() string {
	current, err := a.node.Current()
	if err != nil {
		return fmt.Sprintf("the node's current generation is not known: %v", err)
	}
	open, err := a.node.Interrupted()
	switch {
	case err != nil:
		return fmt.Sprintf("the journal of the last upgrade cannot be read: %v", err)
	case open:
		return fmt.Sprintf("an upgrade from generation %d is interrupted; run `kollet recover`", current.Number)
	}
	return fmt.Sprintf("the node is on generation %d, and no upgrade is interrupted", current.Number)
}
