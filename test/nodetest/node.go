// Package nodetest lets tests use a node as its operator does: with a node file, an
// engine and the kollet program. Node is any node; Compute is a node with the compute
// profile and the images that make builds.
package nodetest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Node is a node as its operator sees it: a file-system root, an engine and the
// Kollet program.
type Node struct {
	T       testing.TB
	Root    string
	Program string
	Socket  string
	Engine  containers.Engine
	Env     []string
}

// New returns a node without services. When the test ends, the node's containers
// are removed; if the test failed, their logs and the journals are printed first.
func New(t testing.TB, engine Engine) *Node {
	t.Helper()
	return NewAt(t, engine, t.TempDir())
}

// NewAt does the same with the node's file-system root at a path.
func NewAt(t testing.TB, engine Engine, root string) *Node {
	t.Helper()
	n := &Node{T: t, Root: root, Program: Program(t, "kollet"), Socket: engine.Address}
	client, err := engine.connect(n.Program, n.Root)
	if err != nil {
		t.Fatal(err)
	}
	n.Engine = client
	t.Cleanup(func() {
		if t.Failed() {
			n.PrintState()
		}
		n.Clear()
		client.Close()
	})
	return n
}

// Program returns the path of a program that make build has built.
func Program(t testing.TB, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run make build", err)
	}
	return path
}

// Built returns a path below the build directory that make fills: KOLLET_BUILD, or
// build in the checkout.
func Built(t testing.TB, path string) string {
	t.Helper()
	dir := os.Getenv("KOLLET_BUILD")
	if dir == "" {
		dir = "../../build"
	}
	full, err := filepath.Abs(filepath.Join(dir, path))
	if err == nil {
		_, err = os.Stat(full)
	}
	if err != nil {
		t.Fatalf("%v: build it with make guest images, controller-image or node-image", err)
	}
	return full
}

// Clear removes the node's containers.
func (n *Node) Clear() {
	ctx := context.Background()
	all, err := n.Engine.List(ctx, map[string]string{node.LabelNode: filepath.Join(n.Root, node.StateDir)})
	if err != nil {
		return // the engine is down; its containers are removed with it
	}
	for _, c := range all {
		_ = n.Engine.Stop(ctx, c.ID, 0)
		_ = n.Engine.Remove(ctx, c.ID)
	}
}

// PrintState prints the last two journals, and the state and last log lines of each
// container.
func (n *Node) PrintState() {
	journals, _ := filepath.Glob(filepath.Join(n.Root, node.StateDir, "journal", "*"))
	for _, path := range journals[max(0, len(journals)-2):] { // more would hide what failed
		data, _ := os.ReadFile(path)
		n.T.Logf("%s:\n%s", filepath.Base(path), data)
	}
	all, _ := n.Engine.List(context.Background(), map[string]string{node.LabelNode: filepath.Join(n.Root, node.StateDir)})
	for _, c := range all {
		var out bytes.Buffer
		_ = n.Engine.Logs(context.Background(), c.ID, containers.LogOptions{Tail: 30}, &out)
		n.T.Logf("container %s: %s, exit status %d\n%s", c.Spec.Name, c.State, c.ExitCode, out.String())
	}
}

func (n *Node) Path(p string) string { return filepath.Join(n.Root, p) }

// Write puts a file below the node's root.
func (n *Node) Write(path, content string) {
	n.T.Helper()
	full := n.Path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		n.T.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		n.T.Fatal(err)
	}
}

// Outcome is the result of a run of kollet.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// All returns standard output and standard error.
func (o Outcome) All() string { return o.Stdout + o.Stderr }

// longest is how long a command of kollet may take. No test makes one that takes longer.
const longest = 15 * time.Minute

// Command returns a command of kollet. If it hangs, it ends with a trace of its goroutines.
func (n *Node) Command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	n.T.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, n.Program, append([]string{"--root", n.Root, "--engine", n.Socket, "--host", "compute-1"}, args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGSEGV) } // which kollet does not handle
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(append(os.Environ(), "GOTRACEBACK=all"), n.Env...)
	return cmd
}

// Kollet runs the program as a user does.
func (n *Node) Kollet(args ...string) Outcome {
	n.T.Helper()
	var stdout, stderr bytes.Buffer
	cmd := n.Command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		n.T.Fatalf("run kollet: %v", err)
	}
	return Outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// Must runs kollet and requires an exit status.
func (n *Node) Must(code int, args ...string) Outcome {
	n.T.Helper()
	o := n.Kollet(args...)
	if o.Code != code {
		n.T.Fatalf("kollet %s: exit status %d, want %d\n%s", strings.Join(args, " "), o.Code, code, o.All())
	}
	return o
}

// Ask runs kollet with JSON output and decodes it.
func (n *Node) Ask(into any, args ...string) {
	n.T.Helper()
	o := n.Must(0, append([]string{"-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(o.Stdout), into); err != nil {
		n.T.Fatalf("kollet %s: %v\n%s", strings.Join(args, " "), err, o.All())
	}
}

func (n *Node) Status() agent.Status {
	n.T.Helper()
	var s agent.Status
	n.Ask(&s, "status")
	return s
}

// Service returns the status of a service.
func (n *Node) Service(name string) agent.ServiceStatus {
	n.T.Helper()
	for _, s := range n.Status().Services {
		if s.Name == name {
			return s
		}
	}
	n.T.Fatalf("no service %s", name)
	return agent.ServiceStatus{}
}

// Healthy requires that all services are healthy and the node is on a generation.
func (n *Node) Healthy(generation int) agent.Status {
	n.T.Helper()
	s := n.Status()
	if s.Generation != generation || !s.Healthy || s.Interrupted {
		n.T.Fatalf("status: %+v, want all services healthy on generation %d", s, generation)
	}
	return s
}
