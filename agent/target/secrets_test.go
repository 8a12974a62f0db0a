package target

import (
	"slices"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/configs/redact"
	"github.com/kollet/kollet/containers"
)

// Fields are reported by name, and their own names are no content.
func TestSecretsIn(t *testing.T) {
	service := generation.Service{
		Name: "nova-compute", Ref: "kolla/nova-compute:1",
		Spec: containers.Spec{Command: []string{"nova-compute"}, User: "nova", Env: map[string]string{"A": "x\"yz", "URL": "amqp://u:p%40ss@h", "B": "cEBzcw=="}},
	}
	for value, want := range map[string][]string{
		"nova":    {"command", "name", "ref", "user"},
		"compute": {"command", "name", "ref"},
		"x\"yz":   {"environment"},
		"p@ss":    {"environment"},
		"spec":    nil,
		"restart": nil,
		"hunter2": nil,
		"abc":     nil,
	} {
		found, err := secretsIn(service, redact.New(map[string]string{"x": value}))
		if got := found["x"]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is in %q, %v; want %q", value, got, err, want)
		}
	}
}
