package podman_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

// A service that crashes repeatedly exits between any two requests. Podman then cannot update
// its cgroup, until it has noticed.
func TestUpdateOfWhatHasJustExited(t *testing.T) {
	exited, running := exec.Command("true"), exec.Command("sleep", "60")
	for _, process := range []*exec.Cmd{exited, running} {
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = process.Process.Kill(), process.Wait() })
	}
	for name, test := range map[string]struct {
		state, policy string
		pid, updates  int
		fails         string
	}{
		"exited, and Podman has not noticed": {"running", "always", exited.Process.Pid, 3, ""},
		"between two runs":                   {"exited", "always", 0, 3, ""},
		"running":                            {"running", "always", running.Process.Pid, 1, "no cgroup"},
		"exited, no policy":                  {"exited", "no", 0, 1, "no cgroup"},
	} {
		t.Run(name, func(t *testing.T) {
			updates := 0
			engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/update"):
					if updates++; updates < 3 {
						w.WriteHeader(http.StatusInternalServerError)
						fmt.Fprint(w, `{"cause":"no cgroup","message":"no cgroup","response":500}`)
						return
					}
					fmt.Fprint(w, `{}`)
				case strings.HasSuffix(r.URL.Path, "/json"):
					fmt.Fprintf(w, `{"Id":"1","Name":"alpha","HostConfig":{"RestartPolicy":{"Name":%q}},"State":{"Status":%q,"Pid":%d}}`, test.policy, test.state, test.pid)
				default:
					fmt.Fprint(w, `{}`)
				}
			}))
			err := engine.Update(t.Context(), "1", "alpha", containers.RestartUnlessStopped)
			if test.fails == "" && err != nil || test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)) {
				t.Errorf("got %v", err)
			}
			if updates != test.updates {
				t.Errorf("%d updates, want %d", updates, test.updates)
			}
		})
	}
}
