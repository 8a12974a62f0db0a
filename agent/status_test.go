package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/health"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// failing is an engine whose commands print a secret and fail.
type failing struct{}

func (failing) Exec(_ context.Context, _ string, cmd containers.Exec) (int, error) {
	fmt.Fprintln(cmd.Stderr, "cannot connect to amqp://nova:hunt%2Fer22@h")
	return 1, nil
}

func TestStatusShowsNoSecrets(t *testing.T) {
	a := &Agent{&node.Node{Root: t.TempDir()}}
	if err := os.MkdirAll(a.node.Path("/etc/kollet"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		node.DefaultNodeFile: "profile: none\nsecrets: {rabbit: {file: /etc/kollet/rabbit}}\nservices: {one: {image: a:1}}\n",
		"/etc/kollet/rabbit": "hunt/er22\n",
	} {
		if err := os.WriteFile(a.node.Path(path), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := generation.Service{Name: "one", Healthcheck: []nodefile.Probe{{Exec: []string{"check"}, Timeout: time.Second}}}
	verdict, why := a.probe(t.Context(), health.Target{Engine: failing{}, ID: "1"}, s)
	if verdict != "unhealthy" || !strings.HasSuffix(why, "amqp://nova:<secret rabbit>@h") {
		t.Errorf("%s: %s", verdict, why)
	}
}
