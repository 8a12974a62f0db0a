package podman_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/podman"
)

// serve answers requests at a socket as Podman does, and returns its address.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "podman.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })
	return socket
}

func connect(t *testing.T, address string) *podman.Engine {
	t.Helper()
	engine, err := podman.New(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return engine
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not contain %q, or has several lines", err, w)
		}
	}
}

func TestVersions(t *testing.T) {
	for version, accepted := range map[string]bool{"4.3.1": false, "5.0.3": false, "5.1.0": true, "5.8.1": true, "6.0.0-dev": true, "": false} {
		engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Libpod-API-Version", version)
			fmt.Fprint(w, podmanInfo(r, `{"host":{"cgroupManager":"systemd","cgroupVersion":"v2"}}`))
		}))
		info, err := engine.Info(t.Context())
		if version == "" {
			wantError(t, err, "is not podman", "engine: docker")
		} else if !accepted {
			wantError(t, err, "podman "+version, "cannot change the restart policy", "upgrade it to 5.1 or newer")
		} else if err != nil || info.Version != version || info.Cgroups != "systemd, v2" {
			t.Errorf("%s: %+v, %v", version, info, err)
		}
	}
}

// podmanInfo answers as a Podman without containers.
func podmanInfo(r *http.Request, info string) string {
	switch path.Base(r.URL.Path) {
	case "_ping":
		return "OK"
	case "info":
		return info
	}
	return "[]"
}

// Podman is slow to say what its containers say, too.
func TestInfoOfContainer(t *testing.T) {
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.8.1")
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			t.Error("it was asked")
		case strings.HasSuffix(r.URL.Path, "/containers/json"):
			if label := r.URL.Query().Get("filters"); label != `{"label":["org.kollet.spec"]}` {
				t.Errorf("asked for containers with %s", label)
			}
			fmt.Fprint(w, `[{"Id":"abc"}]`)
		default:
			fmt.Fprint(w, `{"Id":"abc","StaticDir":"/srv/containers/overlay-containers/abc/userdata","HostConfig":{"CgroupManager":"systemd"}}`)
		}
	}))
	info, err := engine.Info(t.Context())
	if err != nil || info.Root != "/srv/containers" || !strings.HasPrefix(info.Cgroups, "systemd, v") {
		t.Errorf("%+v, %v", info, err)
	}
}

// A caller that gives up and asks again gets the answer to the first question.
func TestSlowInfo(t *testing.T) {
	asked, answer := 0, make(chan struct{})
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.8.1")
		if path.Base(r.URL.Path) == "info" {
			asked++
			<-answer
		}
		fmt.Fprint(w, podmanInfo(r, `{"store":{"graphRoot":"/srv"}}`))
	}))
	impatient, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := engine.Info(impatient); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(answer)
	if info, err := engine.Info(t.Context()); err != nil || info.Root != "/srv" || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", info, err, asked)
	}
}

func TestRootless(t *testing.T) {
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Libpod-API-Version", "5.8.1")
		fmt.Fprint(w, podmanInfo(r, `{"host":{"security":{"rootless":true}}}`))
	}))
	_, err := engine.Info(t.Context())
	wantError(t, err, "without root", "systemctl enable --now podman.socket")
}

func TestUnreachable(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "podman.sock")
	t.Setenv("CONTAINER_HOST", "unix://"+dead)
	for _, address := range []string{"unix://" + dead, dead, ""} {
		_, err := connect(t, address).Info(t.Context())
		wantError(t, err, "podman at unix://"+dead+" cannot be reached", "systemctl start podman.socket")
		if !errors.Is(err, containers.ErrUnreachable) {
			t.Errorf("%v is not ErrUnreachable", err)
		}
	}
	_, err := podman.New("ssh://root@elsewhere/run/podman/podman.sock")
	wantError(t, err, "ssh://root@elsewhere", podman.DefaultAddress)
}

// TestManualChanges: what `podman update` and `podman rename` changed is read back, and the rest as it
// was created.
func TestManualChanges(t *testing.T) {
	const label = `{\"name\":\"nova\",\"image\":\"sha256:1\",\"environment\":{\"A\":\"1\",\"GONE\":\"x\"},\"cap_add\":[\"SYS_ADMIN\"],\"dimensions\":{\"mem_limit\":67108864},\"restart\":\"no\"}`
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/images/") {
			http.Error(w, `{"message":"no such image"}`, http.StatusNotFound)
			return
		}
		fmt.Fprint(w, `{"Id":"abc","Name":"renamed","Image":"1","ImageName":"sha256:1","State":{"Status":"running","Pid":7,"ExitCode":3},
			"Config":{"Env":["A=2","NEW=y","TERM=xterm"],"Labels":{"org.kollet.spec":"`+label+`"}},
			"HostConfig":{"RestartPolicy":{"Name":"always"},"PidMode":"private","IpcMode":"shareable","NetworkMode":"bridge","CapAdd":["CAP_MKNOD"],
			"Memory":134217728,"MemorySwap":268435456,"Ulimits":[{"Name":"RLIMIT_NOFILE","Soft":1,"Hard":1}]}}`)
	}))
	c, err := engine.Inspect(t.Context(), "renamed")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s %s %v %v %s %d %v", c.Spec.Name, c.Spec.Restart, c.Spec.Env, c.Spec.CapAdd, c.Spec.Dimensions.Settings(), c.ExitCode, c.Spec.Ulimits)
	if want := "renamed always map[A:2 NEW:y] [SYS_ADMIN] [mem_limit=128m] 0 []"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	for _, id := range []string{"ab", ""} {
		if _, err = engine.Inspect(t.Context(), id); !errors.Is(err, containers.ErrNotFound) {
			t.Errorf("id %q: %v", id, err)
		}
	}
}

// Two containers with the same new volume may be created at once.
func TestVolumeOfTwo(t *testing.T) {
	found := 0
	engine := connect(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/volumes/data/json"):
			if found++; found == 1 {
				http.Error(w, `{"message":"no such volume"}`, http.StatusNotFound)
			}
		case strings.HasSuffix(r.URL.Path, "/volumes/create"):
			http.Error(w, `{"message":"volume already exists"}`, http.StatusInternalServerError)
		case strings.HasSuffix(r.URL.Path, "/containers/create"):
			fmt.Fprint(w, `{"Id":"abc"}`)
		default:
			t.Errorf("%s %s", r.Method, r.URL.Path)
		}
	}))
	spec := containers.Spec{Name: "nova", Image: "sha256:" + strings.Repeat("1", 64), Mounts: []containers.Mount{{Type: containers.Volume, Source: "data", Target: "/data"}}}
	if id, err := engine.Create(t.Context(), spec); id != "abc" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}
