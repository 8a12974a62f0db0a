package node

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent/generation"
)

// Without the record of the current generation nobody can tell what the node should run.
func TestCurrentUnreadable(t *testing.T) {
	for name, c := range map[string]struct{ record, want string }{
		"torn":            {"{", "damaged record"},
		"empty":           {"", "damaged record"},
		"another number":  {`{"format": 1, "number": 4}`, "damaged record"},
		"another version": {`{"format": 9, "kollet": "9.0"}`, "use that version"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &Node{Root: t.TempDir()}
			manifest := filepath.Join(n.Store().Path(3), "manifest.json")
			err := errors.Join(os.MkdirAll(filepath.Dir(manifest), 0o700), os.WriteFile(manifest, []byte(c.record), 0o600), n.Store().SetCurrent(3))
			if err != nil {
				t.Fatal(err)
			}
			_, err = n.Current()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
			_, operator := errors.AsType[NeedsOperator](err)
			if operator != (c.want == "damaged record") || operator && !strings.Contains(err.Error(), "have "+n.Store().Link()+" point to an earlier generation") {
				t.Errorf("got %v", err)
			}
			if _, engine := EngineName(n.Root, ""); engine == nil || engine.Error() != err.Error() {
				t.Errorf("the engine's name: %v", engine)
			}
		})
	}
	if g, err := (&Node{Root: t.TempDir()}).Current(); err != nil || g.Number != (generation.Generation{}).Number {
		t.Errorf("without a generation: %+v, %v", g, err)
	}
}
