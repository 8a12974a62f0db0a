package agent

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/containers"
)

// The fields are told by name, and their own names are no content.
func TestFieldsWith(t *testing.T) {
	record, err := json.Marshal(generation.Service{
		Name: "nova-compute", Ref: "kolla/nova-compute:1",
		Spec: containers.Spec{Command: []string{"nova-compute"}, User: "nova", Env: map[string]string{"A": "x\"y"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"nova":    {"command", "name", "ref", "user"},
		"compute": {"command", "name", "ref"},
		"x\\\"y":  {"env"},
		"spec":    nil,
		"restart": nil,
		"hunter2": nil,
	} {
		if got := fieldsWith(record, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%q stands in %q, want %q", text, got, want)
		}
	}
}
