package reference

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

// The page and the schema are generated here, and not by kollet itself, which
// would carry the code for it.
//
//go:generate go test -run ^TestDocsAreCurrent$ . -update

var update = flag.Bool("update", false, "write the generated docs instead of comparing them")

func TestDocsAreCurrent(t *testing.T) {
	for name, want := range map[string][]byte{
		"node-file.md":          []byte(markdown()),
		"node-file.schema.json": jsonSchema(),
	} {
		path := filepath.Join("../../../docs", name)
		if *update {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, want) {
			t.Errorf("docs/%s is stale; run make man", name)
		}
	}
}
