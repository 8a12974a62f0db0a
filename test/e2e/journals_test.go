package e2e

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/test/model"
	"github.com/kollet/kollet/test/nodetest"
)

var verifierDir string

// verifierVar names a directory in which the protocol's model was compiled, for machines
// without spin and a compiler.
const verifierVar = "KOLLET_VERIFIER"

// verifier compiles the protocol's model, once.
var verifier = sync.OnceValues(func() (model.Verifier, error) {
	if dir := os.Getenv(verifierVar); dir != "" {
		return model.Compiled(dir), nil
	}
	var err error
	if verifierDir, err = os.MkdirTemp("", "model"); err != nil {
		return model.Verifier{}, err
	}
	return model.NewVerifier(context.Background(), verifierDir)
})

// allowedByModel requires that the protocol's model has a run for each journal that a
// test left, whatever was killed and whatever failed.
func allowedByModel(t testing.TB, n *nodetest.Node) {
	t.Helper()
	v, err := verifier()
	check(t, err)
	// A journal that leaves the search much choice can take it hours.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := v.Check(ctx, n.Path(node.StateDir+"/journal")); err != nil {
		t.Errorf("%v\n(test/model/upgrade.pml)", err)
		n.PrintState()
	}
}
