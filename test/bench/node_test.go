package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/upgrade"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/machine"
)

// testNode is a node in the eyes of its operator: a file-system root, an engine and
// the kollet program.
type testNode struct {
	b       *testing.B
	on      engine
	root    string
	program string
	engine  containers.Engine
}

// newNode makes a node with nothing on it; its containers end with the
// benchmark.
func newNode(b *testing.B, on engine) *testNode {
	b.Helper()
	n := &testNode{b: b, on: on, root: machine.Dir(b, "node"), program: program(b, "kollet")}
	client, err := on.connect(n.program, n.root)
	check(b, err)
	n.engine = client
	b.Cleanup(func() {
		n.clear()
		client.Close()
	})
	return n
}

func (n *testNode) clear() {
	ctx := context.Background()
	all, err := n.engine.List(ctx, map[string]string{node.LabelNode: filepath.Join(n.root, node.StateDir)})
	if err != nil {
		return // the engine is down; its own end cleans up
	}
	for _, c := range all {
		_ = n.engine.Stop(ctx, c.ID, 0)
		_ = n.engine.Remove(ctx, c.ID)
	}
}

// write puts a file below the node's root.
func (n *testNode) write(path, content string) {
	n.b.Helper()
	full := filepath.Join(n.root, path)
	check(n.b, os.MkdirAll(filepath.Dir(full), 0o755))
	check(n.b, os.WriteFile(full, []byte(content), 0o600))
}

// container of a service, as kollet made it.
func (n *testNode) container(service string) containers.Container {
	n.b.Helper()
	found, err := n.engine.Inspect(context.Background(), service)
	check(n.b, err)
	return found
}

// replaceByHand creates the same container again, with its gate, which is open.
func (n *testNode) replaceByHand(service string) {
	n.b.Helper()
	ctx := context.Background()
	old := n.container(service)
	check(n.b, n.engine.Stop(ctx, old.ID, time.Minute))
	check(n.b, n.engine.Remove(ctx, old.ID))
	id, err := n.engine.Create(ctx, old.Spec)
	check(n.b, err)
	check(n.b, n.engine.Start(ctx, id))
}

func (n *testNode) command(args ...string) *exec.Cmd {
	return exec.Command(n.program, append([]string{"--root", n.root, "--engine", n.on.address, "--host", "compute-1"}, args...)...)
}

// change runs a command that may change the node, and wants an outcome.
func (n *testNode) change(want string, args ...string) upgrade.Result {
	n.b.Helper()
	var stdout, stderr bytes.Buffer
	cmd := n.command(append([]string{"-o", "json"}, args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var r upgrade.Result
	err := cmd.Run()
	if err == nil {
		err = json.Unmarshal(stdout.Bytes(), &r)
	}
	if err != nil || string(r.Outcome) != want {
		n.b.Fatalf("kollet %s: %v, outcome %q, want %q\n%s%s", strings.Join(args, " "), err, r.Outcome, want, stdout.String(), stderr.String())
	}
	return r
}
