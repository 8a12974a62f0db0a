package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/nodetest"
)

// testNode is a node with what only these tests do to it.
type testNode struct{ *nodetest.Node }

type outcome = nodetest.Outcome

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
