package cloud_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/test/cloud"
	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

// Every API answers, a request for a server comes back from the scheduler, and a restart
// keeps the data and the passwords.
func TestCloud(t *testing.T) {
	c := cloud.New(t)
	api := c.Client(t)
	up := map[string]bool{}
	for _, s := range api.ComputeServices() {
		up[s.Binary] = s.State == "up"
	}
	if !up["nova-conductor"] || !up["nova-scheduler"] {
		t.Errorf("Nova's services that are up: %v", up)
	}
	if agents := api.Agents(); len(agents) != 0 {
		t.Errorf("agents without a node: %v", agents)
	}
	id := api.CreateServer("nowhere", "", "")
	awaitFault(t, api, id, "No valid host was found")
	secrets := readSecrets(t, c)

	c.Restart()
	if got := readSecrets(t, c); got != secrets {
		t.Error("a restart changed the passwords")
	}
	again := c.Client(t)
	if got := again.Server(id); got.Name != "nowhere" || got.Status != "ERROR" {
		t.Errorf("the server after a restart: %s, %s", got.Name, got.Status)
	}
	again.Delete(id)
}

// awaitFault waits until Nova gives up on a server, for this reason.
func awaitFault(t *testing.T, api *cloud.Client, id, want string) {
	t.Helper()
	for deadline := time.Now().Add(cloud.Patience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if s := api.Server(id); s.Status == "ERROR" {
			if !strings.Contains(s.Fault.Message, want) {
				t.Errorf("fault %q, want %q", s.Fault.Message, want)
			}
			return
		}
	}
	t.Fatalf("the scheduler did not answer: %s", api.Server(id).Status)
}

// readSecrets returns all passwords for a node, which only root may read.
func readSecrets(t *testing.T, c *cloud.Cloud) (all string) {
	t.Helper()
	for _, user := range []string{"rabbit", "nova", "placement", "neutron"} {
		path := c.Secret(user)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) < 16 || strings.ContainsAny(string(text), "\n{}") {
			t.Errorf("%s: %q, %v", path, text, err)
		}
		all += string(text) + " "
	}
	return all
}
