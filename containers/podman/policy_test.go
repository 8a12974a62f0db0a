package podman_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
)

// Podman has no state between two runs of a service that crashes repeatedly: its policy says
// that it starts again.
func TestUpdateBetweenTwoRuns(t *testing.T) {
	for policy, want := range map[string]int{"always": 3, "no": 1} {
		updates := 0
		engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			switch {
			case !strings.HasSuffix(r.URL.Path, "/update"):
				fmt.Fprintf(w, `{"Id":"1","Name":"alpha","HostConfig":{"RestartPolicy":{"Name":%q}},"State":{"Status":"exited"}}`, policy)
			case updates == 2:
				updates++
				fmt.Fprint(w, `{}`)
			default:
				updates++
				http.Error(w, `{"cause":"no cgroup","message":"no cgroup","response":500}`, http.StatusInternalServerError)
			}
		}))
		err := engine.Update(t.Context(), "1", "alpha", containers.RestartUnlessStopped)
		if updates != want || (err == nil) != (want == 3) {
			t.Errorf("%s: %d updates, %v; want %d", policy, updates, err, want)
		}
	}
}
