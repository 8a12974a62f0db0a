package e2e

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// testNode is a node with what only these tests do to it.
type testNode struct{ *nodetest.Node }

type outcome = nodetest.Outcome

var (
	check    = nodetest.Check
	contains = nodetest.Contains
	run      = nodetest.Run
)

// when runs kollet and does something as soon as it has printed a text, which it has to.
func (n *testNode) when(text string, do func(), args ...string) outcome {
	n.T.Helper()
	out := &listener{text: text, do: do}
	cmd := n.Command(args...)
	cmd.Stdout, cmd.Stderr = out, out
	_ = cmd.Run() // the exit status says it
	out.doing.Wait()
	o := outcome{Code: cmd.ProcessState.ExitCode(), Stdout: out.all.String()}
	contains(n.T, o.Stdout, text)
	return o
}

// listener keeps what is written to it, and does something when that contains a text.
type listener struct {
	text  string
	do    func()
	all   strings.Builder
	once  sync.Once
	doing sync.WaitGroup
}

func (l *listener) Write(p []byte) (int, error) {
	l.all.Write(p)
	if strings.Contains(l.all.String(), l.text) {
		l.once.Do(func() { l.doing.Go(l.do) })
	}
	return len(p), nil
}

func newNodeOn(t testing.TB, engine nodetest.Engine) *testNode {
	t.Helper()
	n := nodetest.New(t, engine)
	t.Cleanup(func() {
		if !t.Failed() {
			allowedByModel(t, n)
		}
	})
	return &testNode{n}
}

// answer returns the word that the tiny service at an address answers. It also answers
// its process ID.
func answer(t testing.TB, address string) string {
	t.Helper()
	for end := time.Now().Add(nodetest.Patience); time.Now().Before(end); {
		conn, err := net.DialTimeout("tcp", address, nodetest.Patience)
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
