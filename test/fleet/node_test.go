package fleet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kollet/kollet/agent"
	"github.com/kollet/kollet/test/machine"
	"github.com/kollet/kollet/test/site"
)

func TestMain(m *testing.M) { machine.Main(m) }

// testNode is a machine that kollet manages.
type testNode struct{ *site.Node }

func (n testNode) status() agent.Status {
	n.Site.T.Helper()
	var s agent.Status
	n.Ask(&s, "status")
	return s
}

// runsVersion requires that the node is healthy, that image, config file and answer of each
// service are of a version, and that there is no drift.
func (n testNode) runsVersion(version string) {
	n.Site.T.Helper()
	s := n.status()
	if !s.Healthy || s.Interrupted || len(s.Services) != 2 {
		n.Site.T.Fatalf("%s: %+v; want all services healthy on %s", n.Name, s, version)
	}
	for i, service := range s.Services {
		if !strings.HasSuffix(service.Image, ":"+version) {
			n.Site.T.Fatalf("%s: %s runs %s, want %s", n.Name, service.Name, service.Image, version)
		}
		answer := strings.Fields(n.Run(fmt.Sprintf("docker exec %s /bin/tiny ask 127.0.0.1:%d", service.Name, 7001+i)))
		if len(answer) != 2 || answer[1] != version {
			n.Site.T.Fatalf("%s: %s answers %q, want %s", n.Name, service.Name, answer, version)
		}
	}
	n.Run("kollet verify")
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
