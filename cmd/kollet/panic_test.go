package main

import (
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/cmd/kollet/view"
)

// A panic is a defect, and its message says where the node is.
func TestPanic(t *testing.T) {
	n := agent.New(node.Node{Root: t.TempDir()})
	_, err := withoutPanic(n, func() (view.View, error) { panic("index out of range") })
	if status := exitStatus(err); status != exitOperator {
		t.Errorf("exit status %d", status)
	}
	for _, want := range []string{"defect of kollet: index out of range", "panic_test.go", "the node is on generation 0, and no upgrade is interrupted"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}
