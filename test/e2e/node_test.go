package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/test/machine"
)

// testNode is a node as its operator sees it: a file-system root, an engine and the
// kollet program.
type testNode struct {
	t       testing.TB
	root    string
	program string
	socket  string
	engine  containers.Engine
	env     []string
}

// engineUnderTest is a container engine to run a node on.
type engineUnderTest struct {
	name    string // as in the node file
	address string // for --engine
	socket  string // as error messages print it
	connect func(program, root string) (containers.Engine, error)
	kill    func()
	start   func()
	volume  func(root, name string) string           // the directory of a node's named volume
	inspect func(c containers.Container) []*exec.Cmd // commands of the engine that print everything about a container
}

func onDocker(d *machine.Docker) engineUnderTest {
	return engineUnderTest{
		name: "docker", address: d.Socket, socket: d.Socket, kill: d.Kill, start: d.Start,
		connect: func(string, string) (containers.Engine, error) { return docker.New(d.Socket) },
		volume:  func(_, name string) string { return filepath.Join(d.Root, "volumes", name, "_data") },
		inspect: func(c containers.Container) []*exec.Cmd {
			return []*exec.Cmd{exec.Command("docker", "-H", d.Socket, "inspect", c.ID)}
		},
	}
}

// onContainerd uses a namespace with the name of the test machine's cgroup, so that
// the cgroups of containers are below that cgroup.
func onContainerd(c *machine.Containerd) engineUnderTest {
	namespace := strings.Trim(machine.CgroupParent(), "/")
	address := c.Address + "?namespace=" + namespace
	own := func(root string) string { return filepath.Join(root, node.StateDir, "containerd") }
	ctr := func(args ...string) *exec.Cmd {
		return exec.Command("ctr", append([]string{"--address", c.Address, "--namespace", namespace}, args...)...)
	}
	return engineUnderTest{
		name: "containerd", address: address, socket: c.Address, kill: c.Kill, start: c.Start,
		connect: func(program, root string) (containers.Engine, error) {
			return containerd.New(containerd.Config{Address: address, Root: own(root), Logger: program})
		},
		volume: func(root, name string) string { return filepath.Join(own(root), "volumes", name) },
		inspect: func(c containers.Container) []*exec.Cmd {
			return []*exec.Cmd{ctr("containers", "info", c.ID), ctr("tasks", "ps", c.ID)}
		},
	}
}

// newNodeOn returns a node without services. When the test ends, the node's containers
// are removed; if the test failed, their logs and the journals are printed first.
func newNodeOn(t testing.TB, engine engineUnderTest) *testNode {
	t.Helper()
	n := &testNode{t: t, root: t.TempDir(), program: program(t, "kollet"), socket: engine.address}
	client, err := engine.connect(n.program, n.root)
	if err != nil {
		t.Fatal(err)
	}
	n.engine = client
	t.Cleanup(func() {
		if t.Failed() {
			n.printState()
		}
		n.clear()
		client.Close()
	})
	return n
}

// program returns the path of a program that make build has built.
func program(t testing.TB, name string) string {
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

func (n *testNode) clear() {
	ctx := context.Background()
	all, err := n.engine.List(ctx, map[string]string{node.LabelNode: filepath.Join(n.root, node.StateDir)})
	if err != nil {
		return // the engine is down; its containers are removed with it
	}
	for _, c := range all {
		_ = n.engine.Stop(ctx, c.ID, 0)
		_ = n.engine.Remove(ctx, c.ID)
	}
}

// printState prints the journals, and the state and last log lines of each container.
func (n *testNode) printState() {
	journals, _ := filepath.Glob(filepath.Join(n.root, node.StateDir, "journal", "*"))
	for _, path := range journals {
		data, _ := os.ReadFile(path)
		n.t.Logf("%s:\n%s", filepath.Base(path), data)
	}
	all, _ := n.engine.List(context.Background(), map[string]string{node.LabelNode: filepath.Join(n.root, node.StateDir)})
	for _, c := range all {
		var out bytes.Buffer
		_ = n.engine.Logs(context.Background(), c.ID, containers.LogOptions{Tail: 30}, &out)
		n.t.Logf("container %s: %s, exit status %d\n%s", c.Spec.Name, c.State, c.ExitCode, out.String())
	}
}

func (n *testNode) path(p string) string { return filepath.Join(n.root, p) }

// write puts a file below the node's root.
func (n *testNode) write(path, content string) {
	n.t.Helper()
	full := n.path(path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// outcome is the result of a run of kollet.
type outcome struct {
	code           int
	stdout, stderr string
}

// all returns standard output and standard error.
func (o outcome) all() string { return o.stdout + o.stderr }

func (n *testNode) command(args ...string) *exec.Cmd {
	cmd := exec.Command(n.program, append([]string{"--root", n.root, "--engine", n.socket, "--host", "compute-1"}, args...)...)
	cmd.Env = append(os.Environ(), n.env...)
	return cmd
}

// kollet runs the program as a user does.
func (n *testNode) kollet(args ...string) outcome {
	n.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := n.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		n.t.Fatalf("run kollet: %v", err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// must runs kollet and requires an exit status.
func (n *testNode) must(code int, args ...string) outcome {
	n.t.Helper()
	o := n.kollet(args...)
	if o.code != code {
		n.t.Fatalf("kollet %s: exit status %d, want %d\n%s", strings.Join(args, " "), o.code, code, o.all())
	}
	return o
}

// ask runs kollet with JSON output and decodes it.
func (n *testNode) ask(into any, args ...string) {
	n.t.Helper()
	o := n.must(0, append([]string{"-o", "json"}, args...)...)
	if err := json.Unmarshal([]byte(o.stdout), into); err != nil {
		n.t.Fatalf("kollet %s: %v\n%s", strings.Join(args, " "), err, o.all())
	}
}

func (n *testNode) status() agent.Status {
	n.t.Helper()
	var s agent.Status
	n.ask(&s, "status")
	return s
}

// service returns the status of a service.
func (n *testNode) service(name string) agent.ServiceStatus {
	n.t.Helper()
	for _, s := range n.status().Services {
		if s.Name == name {
			return s
		}
	}
	n.t.Fatalf("no service %s", name)
	return agent.ServiceStatus{}
}

// healthy requires that all services are healthy and the node is on a generation.
func (n *testNode) healthy(generation int) agent.Status {
	n.t.Helper()
	s := n.status()
	if s.Generation != generation || !s.Healthy || s.Interrupted {
		n.t.Fatalf("status: %+v, want all services healthy on generation %d", s, generation)
	}
	return s
}

// contains requires each of the words in a text.
func contains(t testing.TB, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Fatalf("%q is missing in:\n%s", word, text)
		}
	}
}

// answer returns the word that the tiny service at an address answers. It also answers
// its process ID.
func answer(t testing.TB, address string) string {
	t.Helper()
	for range 100 {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		defer conn.Close()
		var pid int
		var word string
		_, _ = fmt.Fscanln(conn, &pid, &word)
		return word
	}
	t.Fatalf("no service answers at %s", address)
	return ""
}
