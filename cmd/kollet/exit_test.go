package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kollet/kollet/agent/format"
	"github.com/kollet/kollet/agent/node"
)

func TestExitStatus(t *testing.T) {
	cause := errors.New("1 operation: server a is spawning")
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"none":     {nil, exitDone},
		"failed":   {cause, exitFailed},
		"input":    {fmt.Errorf("nothing was touched: %w", node.BadInput{Err: cause}), exitInput},
		"operator": {node.NeedsOperator{Err: cause}, exitOperator},
		"damaged":  {fmt.Errorf("read generation 3: %w", &format.DamagedError{Err: cause}), exitOperator},
		"locked":   {fmt.Errorf("%w (process 1)", node.ErrLocked), exitLocked},
		"deferred": {resultError{fmt.Errorf("nothing was touched: %w", node.Deferred{Err: cause}), nil}, exitDeferred},
		// What was staged could not be discarded: that is more important.
		"deferred, and an operator": {node.NeedsOperator{Err: fmt.Errorf("%w; rollback failed too", node.Deferred{Err: cause})}, exitOperator},
	} {
		if got := exitStatus(c.err); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
