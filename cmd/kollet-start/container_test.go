package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/test/needs"
)

// These tests run the real program as the first process of a pid namespace and
// with a root file system of its own, as in a container. They need root, and
// the static busybox of package busybox-static.

const busybox = "/bin/busybox"

// buildDir is empty until build was called.
var buildDir string

// build makes kollet-start as make does, once for all tests.
var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "kollet-start-test-")
	if err != nil {
		return "", err
	}
	buildDir = dir
	path := filepath.Join(dir, "kollet-start")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	if dir := os.Getenv(preloadVar); dir != "" {
		preloadForTest(dir)
	}
	code := m.Run()
	if buildDir != "" {
		os.RemoveAll(buildDir)
	}
	os.Exit(code)
}

func built(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// largest is 2.75 MiB: kollet-start is mounted into every container.
const largest = 11 << 18

func TestSize(t *testing.T) {
	st, err := os.Stat(built(t))
	check(t, err)
	if st.Size() >= largest {
		t.Errorf("kollet-start has %d bytes, want less than %d", st.Size(), largest)
	}
}

// container is a root file system with kollet-start and a gate.
type container struct {
	root string
	gate string
}

func newContainer(t testing.TB) container {
	t.Helper()
	needs.Root(t)
	c := container{root: t.TempDir()}
	c.gate = filepath.Join(c.root, gate.Dir)
	for _, dir := range []string{".kollet", "bin", "dev", "etc", "tmp", "var/lib/nova", gate.Config} {
		check(t, os.MkdirAll(filepath.Join(c.root, dir), 0o755))
	}
	check(t, os.Chmod(filepath.Join(c.root, "tmp"), 0o1777))
	c.install(t, built(t), gate.Start, 0o555)
	c.install(t, busybox, busybox, 0o755)
	for _, applet := range []string{"sh", "sleep", "true", "false", "id", "cat"} {
		check(t, os.Symlink("busybox", filepath.Join(c.root, "bin", applet)))
	}
	check(t, unix.Mknod(filepath.Join(c.root, "dev/null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	check(t, os.Chmod(filepath.Join(c.root, "dev/null"), 0o666))
	c.write(t, "etc/passwd", passwd)
	c.write(t, "etc/group", group)
	check(t, gate.Make(c.gate))
	return c
}

func (c container) install(t testing.TB, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	check(t, err)
	to = filepath.Join(c.root, to)
	check(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check(t, os.WriteFile(to, data, mode))
	check(t, os.Chmod(to, mode))
}

func (c container) write(t testing.TB, name, content string) {
	t.Helper()
	name = filepath.Join(c.root, name)
	check(t, os.MkdirAll(filepath.Dir(name), 0o755))
	check(t, os.WriteFile(name, []byte(content), 0o644))
}

func (c container) read(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(c.root, name))
	check(t, err)
	return string(data)
}

// process is a started container.
type process struct {
	*exec.Cmd
	out *bufio.Reader // what it prints
	err *os.File      // what it says of errors
}

// start runs the container with kollet-start's arguments.
func (c container) start(t testing.TB, args ...string) process {
	t.Helper()
	return c.startProgram(t, append([]string{gate.Start}, args...), nil)
}

func (c container) startProgram(t testing.TB, argv []string, with func(*exec.Cmd)) process {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check(t, err)
	t.Cleanup(func() { log.Close() })
	p := process{err: log}
	p.Cmd = &exec.Cmd{
		Path: argv[0],
		Args: argv,
		Dir:  "/",
		Env:  []string{"PATH=/bin", "HOME=/root", "KOLLA_SERVICE_NAME=nova-compute"},
		SysProcAttr: &syscall.SysProcAttr{
			Chroot:     c.root,
			Cloneflags: unix.CLONE_NEWPID,
			Pdeathsig:  unix.SIGKILL,
		},
		Stderr: log,
	}
	if with != nil {
		with(p.Cmd)
	}
	out, err := p.StdoutPipe()
	check(t, err)
	check(t, p.Start())
	t.Cleanup(func() { p.Process.Kill(); p.Wait() })
	p.out = bufio.NewReader(out)
	return p
}

// staged waits until the container is at its gate.
func (c container) staged(t testing.TB, p process) {
	t.Helper()
	if err := gate.Wait(t.Context(), c.gate, p); err != nil {
		t.Fatalf("%v\n%s", err, p.log(t))
	}
	if exe := p.exe(t); !strings.HasSuffix(exe, gate.Start) {
		t.Fatalf("at its gate it is %s", exe)
	}
}

// Exited waits for a moment and reports whether the process is a zombie: nothing
// reaps it before the test does.
func (p process) Exited(within time.Duration) (bool, error) {
	time.Sleep(within)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
	return strings.Contains(string(stat), ") Z "), err
}

// says waits for a line of the service; "" is its end.
func (p process) says(t testing.TB, want string) {
	t.Helper()
	line, err := p.out.ReadString('\n')
	if got := strings.TrimSpace(line); got != want {
		t.Fatalf("the service says %q (%v), want %q; log:\n%s", got, err, want, p.log(t))
	}
}

// log is what it has said of errors until now.
func (p process) log(t testing.TB) string {
	t.Helper()
	data, err := os.ReadFile(p.err.Name())
	check(t, err)
	return string(data)
}

// end waits for the container to end and returns its exit code.
func (p process) end(t testing.TB) int {
	t.Helper()
	io.Copy(io.Discard, p.out)
	p.Wait()
	return p.ProcessState.ExitCode()
}

func (p process) exe(t testing.TB) string {
	t.Helper()
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.Process.Pid))
	check(t, err)
	return exe
}

// proc returns a file of the process in /proc.
func (p process) proc(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Process.Pid, name))
	check(t, err)
	return string(data)
}

// status returns fields of /proc/PID/status, one per line.
func (p process) status(t testing.TB, fields ...string) string {
	t.Helper()
	var out []string
	for line := range strings.Lines(p.proc(t, "status")) {
		f := strings.Fields(line)
		for _, want := range fields {
			if f[0] == want+":" {
				out = append(out, strings.Join(f, " "))
			}
		}
	}
	return strings.Join(out, "\n")
}
