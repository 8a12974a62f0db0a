package health

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/test/needs"
)

func try1(t *testing.T, target Target, p nodefile.Probe) error {
	t.Helper()
	p.Timeout = time.Minute
	return Try(t.Context(), target, []nodefile.Probe{p})
}

func TestTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := try1(t, Target{}, nodefile.Probe{TCP: address}); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := try1(t, Target{}, nodefile.Probe{TCP: address}); err == nil || !strings.HasPrefix(err.Error(), "probe tcp "+address+": ") {
		t.Errorf("nobody listens: %v", err)
	}
}

// A dial that the start period cuts off fails a moment before its context ends. The user is
// told why the others failed.
func TestDeadlineIsNotTheReason(t *testing.T) {
	p := nodefile.Probe{TCP: "127.0.0.1:1", StartPeriod: 2 * time.Millisecond, Interval: time.Microsecond, Timeout: time.Second}
	refused := 0
	for range 200 {
		err := Answers(t.Context(), Target{}, p)
		switch {
		case err == nil || strings.HasSuffix(err.Error(), "timeout"):
			t.Fatalf("got %v, want that the connection is refused", err)
		case strings.HasSuffix(err.Error(), "connection refused"):
			refused++
		}
	}
	if refused == 0 {
		t.Error("no error says that the connection is refused")
	}
}

func TestHTTP(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	// A proxy would answer for a missing service. This is set first, because
	// net/http reads the environment once.
	t.Setenv("HTTP_PROXY", server.URL)
	t.Setenv("http_proxy", server.URL)
	if err := try1(t, Target{}, nodefile.Probe{HTTP: "http://service.invalid/200"}); err == nil {
		t.Error("a proxy was asked")
	}
	for status, want := range map[int]string{200: "", 204: "", 399: "", 400: "answered 400 Bad Request", 404: "answered 404 Not Found", 503: "answered 503 Service Unavailable"} {
		err := try1(t, Target{}, nodefile.Probe{HTTP: server.URL + "/" + strconv.Itoa(status)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v", status, err)
		}
	}
	if n := connections.Load(); n != 6 {
		t.Errorf("%d connections for 6 tries: one that an earlier process accepted proves nothing", n)
	}
	if err := try1(t, Target{}, nodefile.Probe{HTTP: "http://bad host"}); err == nil || !strings.HasPrefix(err.Error(), "probe: ") {
		t.Errorf("no URL: %v", err)
	}
}

// inRoot starts a process with the root directory dir, like the first process of a
// container.
func inRoot(t *testing.T, dir string) int {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatalf("%v; apt-get install busybox-static", err)
	}
	program, err := os.ReadFile(busybox)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "busybox"), program, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/busybox", Args: []string{"busybox", "cat"}, Dir: "/", SysProcAttr: &unix.SysProcAttr{Chroot: dir}}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return cmd.Process.Pid
}

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "x")
			conn.Close()
		}
	}()
}

// Links are resolved in the container's file system: an absolute link to its own
// socket is followed, one to a socket of the host is not.
func TestUnix(t *testing.T) {
	needs.Root(t)
	root, err := os.MkdirTemp("", "root") //nolint:usetesting // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	outside := filepath.Join(root, "outside.sock")
	inside := filepath.Join(root, "c")
	for _, dir := range []string{inside + "/run/lib", inside + "/var"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listen(t, outside)
	listen(t, inside+"/run/lib/sock")
	for link, target := range map[string]string{"/var/run": "/run", "/link": "/var/run/lib/sock", "/out": outside, "/up": "../outside.sock", "/loop": "/loop"} {
		if err := os.Symlink(target, inside+link); err != nil {
			t.Fatal(err)
		}
	}
	target := Target{Host: host.Real(), PID: inRoot(t, inside)}
	for path, found := range map[string]bool{
		"/run/lib/sock": true, "/var/run/lib/sock": true, "/link": true, "run/lib/sock": true, "/../run/lib/sock": true,
		"/out": false, "/up": false, "/loop": false, "/run/lib": false, "/none": false, "/../outside.sock": false, outside: false,
	} {
		err := try1(t, target, nodefile.Probe{Unix: path})
		if (err == nil) != found {
			t.Errorf("%s: %v", path, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "probe unix "+path+": ") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := try1(t, Target{Host: host.Real(), PID: 0}, nodefile.Probe{Unix: "/run/lib/sock"}); err == nil {
		t.Error("a container that does not run answered")
	}
}
