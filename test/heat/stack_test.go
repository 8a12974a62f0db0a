package heat

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/firstboot"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
)

// TestStackOfAFailedNode follows a failure from kollet to the stack: a bootstrap fails,
// the signal script posts its record, and Heat's engine fails the stack with the reason.
func TestStackOfAFailedNode(t *testing.T) {
	s := stackOf(t, bootstrapped(t, "profile: none\nimagse: {}\nservices:\n  alpha: {image: \"r/a:1\"}\n"))
	want := "WaitConditionFailure: resources.ready: "
	if s.Status != "FAILED" || !strings.Contains(s.Reason, want) {
		t.Fatalf("the stack is %s: %s; want FAILED: … %s", s.Status, s.Reason, want)
	}
	for _, word := range []string{"node.yaml:2:1: imagse: unknown key", "images"} {
		if !strings.Contains(s.Reason, word) {
			t.Errorf("the stack's reason does not contain %q: %s", word, s.Reason)
		}
	}
}

// A node that is healthy completes the stack, which has kollet's result.
func TestStackOfAHealthyNode(t *testing.T) {
	root := t.TempDir()
	check(t, firstboot.End(root, firstboot.Finished{OK: true, Outcome: "committed", Generation: 1, Kollet: "v1"}))
	if s := stackOf(t, root); s.Status != "COMPLETE" || !strings.Contains(s.Data, "generation 1, kollet v1") {
		t.Fatalf("the stack is %s: %s, with the result %s", s.Status, s.Reason, s.Data)
	}
}

// bootstrapped bootstraps a node whose node file has mistakes, and returns its root.
func bootstrapped(t *testing.T, nodeFile string) string {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, node.DefaultNodeFile)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(nodeFile), 0o600))
	a := agent.New(node.Node{Root: root, Name: "cmp1", Host: host.Real(), Version: "v1", Command: "bootstrap"})
	if _, err := a.Bootstrap(t.Context(), agent.BootstrapOptions{}); err == nil {
		t.Fatal("the bootstrap did not fail")
	}
	return root
}

// stack is what Heat shows of a stack.
type stack struct{ Status, Reason, Data string }

// stackOf returns the stack of a node that posts the record below its root.
func stackOf(t *testing.T, root string) (s stack) {
	t.Helper()
	signal, _ := post(t, filepath.Join(root, firstboot.FinishedPath))
	given := struct {
		job
		Signal json.RawMessage `json:"signal"`
	}{in(templates, oneNode, "#cloud-config\n{}\n"), signal}
	heat(t, "create.py", given, &s)
	return s
}
