// Package images contains the Dockerfiles of a node's images, and tests of what does not
// need the images: the health probes, with real processes and sockets, and the rules that
// keep rebuilds fast.
package images

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/test/needs"
)

// The test binary is also the process that the probes search for: it opens what its argument
// names, prints a line, and exits when its standard input is closed.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && strings.HasPrefix(os.Args[1], "probed-") {
		c, err := open(os.Args[2], os.Args[3])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println("ready")
		io.Copy(io.Discard, os.Stdin)
		c.Close()
		return
	}
	os.Exit(m.Run())
}

func open(what, address string) (io.Closer, error) {
	switch what {
	case "connect":
		return net.Dial("tcp", address)
	case "listen":
		return net.Listen("tcp", address)
	case "unix":
		return net.Listen("unix", address)
	}
	return nil, fmt.Errorf("cannot open: %s", what)
}

// probed starts the test binary again under a name and waits until it has opened its socket.
func probed(t *testing.T, name, what, address string, attr *syscall.SysProcAttr) {
	t.Helper()
	program := os.Args[0]
	if attr != nil && attr.Credential != nil {
		program = readable(t)
	}
	cmd := exec.Command(program, name, what, address)
	cmd.SysProcAttr = attr
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s %s: %v", name, what, err)
		}
	})
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatalf("%s %s did not open its socket: %v", name, what, err)
	}
}

// readable copies the test binary to a place where every user can execute it.
func readable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "probed")
	if err := os.WriteFile(program, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return program
}

// probe runs a health probe and returns whether it succeeded, and its output.
func probe(t *testing.T, name string, args ...string) (bool, string) {
	t.Helper()
	out, err := exec.Command(filepath.Join("healthcheck", "bin", name), args...).CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		t.Fatal(err)
	}
	return err == nil, string(out)
}

func listener(t *testing.T, address string) (net.Listener, string) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, port
}

func TestProbesOfProcesses(t *testing.T) {
	broker, port := listener(t, "127.0.0.1:0")
	_, unused := listener(t, "127.0.0.1:0")
	free, freePort := listener(t, "127.0.0.1:0")
	free.Close()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s.sock")
	other := filepath.Join(dir, "other.sock")
	me := fmt.Sprintf("probed-%d", os.Getpid())

	probed(t, me+"-client", "connect", broker.Addr().String(), nil)
	accepted, err := broker.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	_, clientPort, err := net.SplitHostPort(accepted.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	probed(t, me+"-server", "listen", "127.0.0.1:"+freePort, nil)
	probed(t, me+"-unix", "unix", socket, nil)
	probed(t, me+"-nobody", "unix", other, nil)
	// A process of another container has other mounts.
	away := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		away.Cloneflags |= syscall.CLONE_NEWUSER
	}
	probed(t, me+"-away", "connect", broker.Addr().String(), away)

	for _, c := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"healthcheck_port", []string{me + "-client", port}, true},
		{"healthcheck_port", []string{me + "-client", unused, port}, true},
		{"healthcheck_port", []string{me + "-client", unused}, false},
		{"healthcheck_port", []string{me + "-server", port}, false},
		{"healthcheck_port", []string{me + "-server", freePort}, false},
		{"healthcheck_port", []string{me + "-away", port}, false},
		{"healthcheck_port", []string{me + "-absent", port}, false},
		{"healthcheck_port", []string{me + "-client"}, false},
		{"healthcheck_listen", []string{me + "-server", freePort}, true},
		{"healthcheck_listen", []string{me + "-server", port}, false},
		{"healthcheck_listen", []string{me + "-client", port}, false},
		{"healthcheck_listen", []string{me + "-client", freePort}, false},
		// Its end of the connection has a port, but it does not listen on that port.
		{"healthcheck_listen", []string{me + "-client", clientPort}, false},
		{"healthcheck_socket", []string{me + "-unix", socket}, true},
		{"healthcheck_socket", []string{me + "-unix", other}, false},
		{"healthcheck_socket", []string{me + "-client", socket}, false},
		{"healthcheck_socket", []string{me + "-unix", socket + ".gone"}, false},
	} {
		if ok, out := probe(t, c.name, c.args...); ok != c.ok {
			t.Errorf("%s %v: %t, want %t: %s", c.name, c.args, ok, c.ok, out)
		}
	}
}

// With Docker's default capabilities, root cannot inspect other users' processes, but the
// probe must still find them.
func TestProbeWithoutPtrace(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("without root, a test can only have processes of its own user, see TestProbesOfProcesses")
		return
	}
	broker, port := listener(t, "127.0.0.1:0")
	me := fmt.Sprintf("probed-%d-other", os.Getpid())
	probed(t, me, "connect", broker.Addr().String(),
		&syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}})
	for _, c := range []struct {
		port string
		ok   bool
	}{{port, true}, {"1", false}} {
		out, err := exec.Command("setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace",
			"healthcheck/bin/healthcheck_port", me, c.port).CombinedOutput()
		if (err == nil) != c.ok {
			t.Errorf("port %s: %v, want success %t: %s", c.port, err, c.ok, out)
		}
	}
}

func TestProbesOfFilesAndURLs(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ok" {
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(file, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"healthcheck_curl", []string{server.URL + "/ok"}, true},
		{"healthcheck_curl", []string{server.URL + "/bad"}, false},
		{"healthcheck_curl", nil, false},
		{"healthcheck_filemod", []string{file, "7200"}, true},
		{"healthcheck_filemod", []string{file, "60"}, false},
		{"healthcheck_filemod", []string{file + ".gone", "60"}, false},
	} {
		if ok, out := probe(t, c.name, c.args...); ok != c.ok {
			t.Errorf("%s %v: %t, want %t: %s", c.name, c.args, ok, c.ok, out)
		}
	}
}

// A second version must only need a new label: VERSION comes after every step that creates a
// layer, in each stage. And the base image must be configurable.
func TestDockerfiles(t *testing.T) {
	files, err := filepath.Glob("*/Dockerfile")
	if err != nil || len(files) < 7 {
		t.Fatalf("found %v, %v", files, err)
	}
	layer := regexp.MustCompile(`(?m)^(RUN|COPY|ADD) `)
	stage := regexp.MustCompile(`(?m)^FROM `)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		stages := stage.Split(string(text), -1)
		if !strings.Contains(stages[0], "\nARG BASE=") || !strings.HasPrefix(stages[1], "${BASE}") {
			t.Errorf("%s does not start from ARG BASE", file)
		}
		for _, s := range stages {
			_, after, has := strings.Cut(s, "\nARG VERSION=")
			if has && layer.MatchString(after) {
				t.Errorf("%s creates a layer after ARG VERSION", file)
			}
			if has && !strings.Contains(after, `org.opencontainers.image.version="${VERSION}"`) {
				t.Errorf("%s does not label the version", file)
			}
		}
		last := stages[len(stages)-1]
		if !strings.Contains(file, "base/") && !strings.Contains(last, "\nARG VERSION=") {
			t.Errorf("%s has no version", file)
		}
	}
}

// Every script must pass sh -n, and every Python program must compile. shellcheck checks
// shell scripts more thoroughly.
func TestScripts(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"*.sh", "*/*-start", "healthcheck/*/*", "healthcheck/lib/*/*",
		"base/rootfs/usr/local/sbin/*", "base/rootfs/usr/sbin/*", "controller/bin/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, found...)
	}
	checked := 0
	for _, script := range scripts {
		info, err := os.Stat(script)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			continue
		}
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		checked++
		if strings.HasPrefix(string(text), "#!/usr/bin/python3\n") {
			compile := exec.Command("/usr/bin/python3", "-c", "import sys; compile(sys.stdin.read(), sys.argv[1], 'exec')", script)
			compile.Stdin = strings.NewReader(string(text))
			if out, err := compile.CombinedOutput(); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s, mode %v: %s", script, info.Mode(), out)
			}
			continue
		}
		if out, err := exec.Command("sh", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %s", script, out)
		}
		if info.Mode()&0o111 == 0 && filepath.Ext(script) != ".sh" {
			t.Errorf("%s is not executable", script)
		}
		if shellcheck, err := exec.LookPath("shellcheck"); err == nil {
			if out, err := exec.Command(shellcheck, "-x", script).CombinedOutput(); err != nil {
				t.Errorf("%s: %s", script, out)
			}
		}
	}
	if checked < 19 {
		t.Errorf("only %d scripts found: %v", checked, scripts)
	}
}

// TestEbtablesDeletesAmong runs the commands with which the Linux bridge agent replaces a
// port's rules, in a network of its own.
func TestEbtablesDeletesAmong(t *testing.T) {
	needs.Root(t)
	out, err := exec.Command("unshare", "--net", "sh", "-euc", `
		nat() { neutron/ebtables -t nat --concurrent "$@"; }
		nat -N neutronMAC-tap1 -P DROP
		nat -A neutronMAC-tap1 -j DROP
		nat -I PREROUTING -i tap1 -j neutronMAC-tap1
		nat -I neutronMAC-tap1 -i tap1 --among-src fa:16:3e:00:00:07 -j RETURN
		nat -I neutronMAC-tap1 -i tap1 --among-src fa:16:3e:00:00:01,fa:16:3e:00:0a:02 -j RETURN
		nat -D neutronMAC-tap1 $(nat -L neutronMAC-tap1 | grep 0:0:7)
		nat -L neutronMAC-tap1
		if nat -D neutronMAC-tap1 -i tap1 --among-src fa:16:3e:0:0:7 -j RETURN 2>&1; then echo deleted twice; fi
		nat -D PREROUTING -i tap1 -j neutronMAC-tap1
		nat -F neutronMAC-tap1
		nat -X neutronMAC-tap1
		nat -L`).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var rules []string
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "Bridge ") && strings.TrimSpace(line) != "" {
			rules = append(rules, strings.TrimSpace(line))
		}
	}
	want := []string{
		"-i tap1 --among-src fa:16:3e:0:0:1,fa:16:3e:0:a:2 -j RETURN", "-j DROP", // one rule is gone
		"ebtables: no rule in chain neutronMAC-tap1 of table nat: -i tap1 --among-src fa:16:3e:0:0:7 -j RETURN",
	} // and then all of them
	if !slices.Equal(rules, want) {
		t.Fatalf("rules:\n%q, want\n%q", rules, want)
	}
}
