package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOthersWriteFile(t *testing.T) {
	n := &Node{Root: t.TempDir(), NodeFile: "node.yaml"}
	if err := n.OthersWriteFile(); err != nil {
		t.Errorf("no node file: %v", err)
	}
	path := filepath.Join(n.Root, "node.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o600: "", 0o644: "", 0o664: "its mode is 0664; chmod go-w ", 0o602: "its mode is 0602; chmod go-w "} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := n.OthersWriteFile(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%o: %v", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a file away
	}
	if err := os.Chown(path, 12345, 0); err != nil {
		t.Fatal(err)
	}
	if err := n.OthersWriteFile(); err == nil || !strings.Contains(err.Error(), "it belongs to user 12345; chown root ") {
		t.Errorf("of another user: %v", err)
	}
}
