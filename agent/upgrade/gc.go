package upgrade

import (
	"context"
	"errors"

	"github.com/kollet/kollet/agent/node"
)

// unrecordedError means that all of an upgrade is done or undone, except for the last
// record of its journal.
type unrecordedError struct{ error }

func (e unrecordedError) Unwrap() error { return e.error }

// GC recovers, and then drops what nothing needs. An upgrade whose end cannot be recorded is
// in its way no more than one that has ended: the disk may be full, and gc frees it.
func GC(ctx context.Context, n *node.Node) (Garbage, error) {
	unlock, err := Lock(n)
	if err != nil {
		return Garbage{}, err
	}
	defer unlock()
	_, err = RecoverLocked(ctx, n)
	_, unrecorded := errors.AsType[unrecordedError](err)
	if err != nil && !unrecorded {
		return Garbage{}, err
	}
	current, err := n.Current()
	if err != nil {
		return Garbage{}, err
	}
	gone, err := Collect(ctx, n, current)
	if err == nil && unrecorded {
		_, err = RecoverLocked(ctx, n)
	}
	return gone, err
}
