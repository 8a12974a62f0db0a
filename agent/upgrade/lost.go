package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/kollet/kollet/agent/node"
)

// checkLost refuses to replace containers that run although their generation is gone: the state
// directory was lost, or restored from an older copy. What they mount went with it, so once
// they are stopped, nothing can start them again.
func (t *transaction) checkLost(ctx context.Context) error {
	all, err := t.node.Containers(ctx)
	if err != nil {
		return err
	}
	var lost []string
	for _, c := range all {
		number := node.GenerationOf(c)
		if number == 0 || c.State.Stopped() {
			continue
		}
		_, err := os.Stat(t.node.Store().Path(number))
		if errors.Is(err, fs.ErrNotExist) {
			lost = append(lost, fmt.Sprintf("%s of generation %d", c.Spec.Name, number))
		} else if err != nil {
			return err
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return t.refuse(fmt.Errorf("check: there is no way back from this: running, but with files that are gone from %s, are %s; restore the latest state of that directory if there is a copy", t.node.Generations(), strings.Join(lost, ", ")))
}
