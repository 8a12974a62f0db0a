package podman_test

import (
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/test/needs"
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

// What starts a container again may have read its policy before it was changed.
func TestUpdateAwaitsPendingRestarts(t *testing.T) {
	needs.Root(t) // as which Podman does it
	const id = "1e0b6ff1a7"
	began := func(user uint32, args ...string) (end func()) {
		t.Helper()
		pending := exec.Command("sh", append([]string{"-c", "read end", "podman"}, args...)...)
		pending.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user}}
		stdin, err := pending.StdinPipe()
		if err == nil {
			err = pending.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() { _, _ = stdin.Close(), pending.Wait() }
	}
	engine := connect(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"Id":%q,"Name":"alpha","HostConfig":{"RestartPolicy":{"Name":"no"}},"State":{"Status":"exited"}}`, id)
	}))
	for _, args := range [][]string{
		{"container", "cleanup", "--stopped-only", "another"},
		{"container", "cleanup", "--exec", "session", id},
		{"logs", id},
	} {
		defer began(0, args...)()
	}
	defer began(65534, "container", "cleanup", "--stopped-only", id)() // of a user whom it does not wait for
	if err := engine.Update(t.Context(), "alpha", "alpha", containers.RestartNo); err != nil {
		t.Fatal(err)
	}
	end := began(0, "--root", "/", "container", "cleanup", "--stopped-only", id)
	updated := make(chan error)
	go func() { updated <- engine.Update(t.Context(), "alpha", "alpha", containers.RestartNo) }()
	select {
	case err := <-updated:
		t.Errorf("the update did not wait: %v", err)
		end()
	case <-time.After(200 * time.Millisecond):
		end()
		if err := <-updated; err != nil {
			t.Error(err)
		}
	}
}

// Podman forgets the limits that the change of a policy does not name.
func TestUpdateKeepsLimits(t *testing.T) {
	const label = `{\"ulimits\":[{\"name\":\"nofile\",\"soft\":10,\"hard\":20}]}`
	body := ""
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/update") {
			text, _ := io.ReadAll(r.Body)
			body = string(text)
		}
		fmt.Fprint(w, `{"Id":"1","Name":"alpha","Config":{"Labels":{"org.kollet.spec":"`+label+`"}},"State":{"Status":"running"},
			"HostConfig":{"RestartPolicy":{"Name":"no"},"Ulimits":[{"Name":"RLIMIT_NOFILE","Soft":10,"Hard":20},{"Name":"RLIMIT_NPROC","Soft":1,"Hard":1},{"Name":"RLIMIT_MEMLOCK","Soft":-1,"Hard":-1}]}}`)
	}))
	if err := engine.Update(t.Context(), "1", "alpha", containers.RestartAlways); err != nil {
		t.Fatal(err)
	}
	if want := `{"r_limits":[{"type":"nofile","hard":20,"soft":10},{"type":"memlock","hard":-1,"soft":-1}]}`; body != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}
