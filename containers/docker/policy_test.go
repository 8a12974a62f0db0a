package docker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/kollet/kollet/containers"
)

// A restart policy that kollet does not have is set again as it was.
func TestPolicy(t *testing.T) {
	for _, p := range []container.RestartPolicy{{Name: "no"}, {Name: "always"}, {Name: "unless-stopped"}, {Name: "on-failure"}, {Name: "on-failure", MaximumRetryCount: 7}} {
		if got := toPolicy(fromPolicy(p)); got != p {
			t.Errorf("%+v became %+v", p, got)
		}
	}
}

// A service that crashes repeatedly exits at any moment, also while its restart policy is
// changed: the engine's error passes, whatever it says. That of a service which runs does
// not.
func TestUpdateOfWhatHasJustExited(t *testing.T) {
	exited, running := exec.Command("true"), exec.Command("sleep", "60")
	for _, process := range []*exec.Cmd{exited, running} {
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = process.Process.Kill(), process.Wait() })
	}
	for name, test := range map[string]struct {
		state   string
		pid     int
		updates int
		fails   string
	}{
		"exited, and the engine has not noticed": {"running", exited.Process.Pid, 3, ""},
		"between two runs":                       {"restarting", 0, 3, ""},
		"running":                                {"running", running.Process.Pid, 1, "no cgroup"},
		"exited":                                 {"exited", 0, 1, "no cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			updates := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("API-Version", "1.41")
				w.Header().Set("Content-Type", "application/json")
				switch {
				case strings.HasSuffix(r.URL.Path, "/update"):
					if updates++; updates < 3 {
						w.WriteHeader(http.StatusInternalServerError)
						fmt.Fprint(w, `{"message":"no cgroup"}`)
						return
					}
					fmt.Fprint(w, `{}`)
				case strings.HasSuffix(r.URL.Path, "/json"):
					fmt.Fprintf(w, `{"Id":"1","Name":"/alpha","HostConfig":{"RestartPolicy":{"Name":"always"}},"State":{"Running":%t,"Restarting":%t,"Pid":%d}}`,
						test.state != "exited", test.state == "restarting", test.pid)
				default:
					fmt.Fprint(w, `{}`)
				}
			}))
			t.Cleanup(server.Close)
			engine, err := New("tcp://" + server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			err = engine.Update(t.Context(), "1", "alpha", containers.RestartNo)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("error %v, want %q", err, test.fails)
			}
			if updates != test.updates {
				t.Errorf("%d updates, want %d", updates, test.updates)
			}
		})
	}
}
