package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/journal"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// AwaitEngine waits this long for the engine, without which nothing can be recovered.
func AwaitEngine(ctx context.Context, n *node.Node, wait time.Duration) (containers.Info, error) {
	info, err := n.AwaitEngine(ctx, wait)
	return info, unrecovered(n, err)
}

// Lock locks the node for a command that changes it, and first recovers it.
func Lock(n *node.Node) (unlock func(), err error) {
	unlock, err = n.Lock()
	return unlock, unrecovered(n, err)
}

// unrecovered returns an error because of which nothing was recovered. If services may be
// stopped, the node needs an operator; else it is as it was before the upgrade.
func unrecovered(n *node.Node, err error) error {
	if err == nil || errors.Is(err, node.ErrLocked) {
		return err
	}
	if why := mayBeStopped(n); why != "" {
		return node.NeedsOperator{Err: fmt.Errorf("%w; until `kollet recover` succeeds, services may be stopped, because %s", err, why)}
	}
	return err
}

// mayBeStopped says why services may be stopped, from the journals alone; empty if they
// are not.
func mayBeStopped(n *node.Node) string {
	if stuck, err := endedStuck(n); err != nil {
		return "the journal of the last upgrade cannot be read"
	} else if stuck != nil {
		return "the last upgrade was rolled back to a generation that was not healthy"
	}
	last, records, _ := n.LastJournal() // endedStuck has read it
	if journal.Ended(records) || !reachedCutover(records) {
		return ""
	}
	return fmt.Sprintf("the upgrade from generation %d to %d was interrupted after it had begun to cut over %s", records[0].From, last, strings.Join(n.CutOver(), ", "))
}

// reachedCutover reports whether a journal says that anything that ran may have been stopped.
func reachedCutover(records []journal.Record) bool {
	return slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.Event == journal.Intent && r.Step.Kind == journal.CutOver
	})
}
