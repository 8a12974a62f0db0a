package plan

import (
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/target"
)

func TestDroppedHotfix(t *testing.T) {
	for want, h := range map[string]Hotfix{
		"hotfix: tag 2 is dropped; the node file's 1 applies again":           {Value: "2", NodeFile: "1"},
		"hotfix: tag 2 is dropped":                                            {Value: "2"},
		"hotfix: image web:2 is dropped; the node file's web:1 applies again": {Service: "web", Value: "web:2", NodeFile: "web:1"},
		"hotfix: the node file now says the same: image web:2":                {Service: "web", Value: "web:2", NodeFile: "web:2"},
	} {
		h.State = Dropped
		if got := h.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestAnotherEngine(t *testing.T) {
	err := SameEngine(t.Context(), nil, &target.Target{Engine: "containerd"}, generation.Generation{Number: 1, Engine: "docker"})
	if want := "engine: this node runs on docker and cannot be moved to another engine; set `engine: docker`"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
