package machine

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kollet/kollet/test/machine/bounded"
)

// Containerd is a containerd that only the test uses. Its clients choose the OCI
// runtime of containers: see Runtime.
type Containerd struct {
	Address string // path of the socket
	Root    string // data root
	PID     int    // of the last start

	d   *daemon
	run string // directory of its state
}

// ContainerdOption changes how containerd is started.
type ContainerdOption func(t TB, dir string, cmd *exec.Cmd)

// BoundedRuntime lets privileged containers and containers with high resource limits
// start on machines whose capability bounding set is restricted, with the capabilities
// and limits that are available. On other machines it changes nothing. Shims find runc
// in containerd's PATH.
func BoundedRuntime() ContainerdOption {
	return func(t TB, dir string, cmd *exec.Cmd) {
		t.Helper()
		if len(bounded.Missing()) == 0 {
			return
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("make a directory for an OCI runtime: %v", err)
		}
		path := os.Getenv("PATH") + ":/usr/sbin"
		writeRuntime(t, filepath.Join(dir, "runc"), path)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+path)
	}
}

// NewContainerd starts containerd and waits until it listens. When the test ends,
// containerd and all processes of its containers are killed and its data is removed.
func NewContainerd(t TB, options ...ContainerdOption) *Containerd {
	t.Helper()
	return NewContainerdAt(t, Dir(t, "containerd")+"/data", options...)
}

// NewContainerdAt does the same with its data in root, which is kept when the test ends.
func NewContainerdAt(t TB, root string, options ...ContainerdOption) *Containerd {
	t.Helper()
	dir := Dir(t, "containerd")
	run := fmt.Sprintf("/run/containerd-%d", count())
	e := &Containerd{Address: run + "/containerd.sock", Root: root, run: run}
	config := dir + "/config.toml"
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = %q\n"+
		"[plugins.\"io.containerd.internal.v1.restart\"]\n  interval = \"1s\"\n", // of the restart monitor; the default is 10s
		e.Root, run+"/state", e.Address)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatalf("write containerd's configuration: %v", err)
	}
	e.d = &daemon{
		t: t, name: "containerd", log: filepath.Join(dir, "containerd.log"),
		probe: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	e.d.make = func() *exec.Cmd {
		cmd := e.d.command("containerd", "--config", config)
		for _, option := range options {
			option(t, filepath.Join(dir, "bin"), cmd)
		}
		return cmd
	}
	t.Cleanup(e.LosePower)
	e.d.tellOnFailure()
	e.Start()
	return e
}

// Use has the next start use the programs in some directories, written as in PATH, before
// those of the machine: another version of containerd and of runc.
func (e *Containerd) Use(path string) { e.d.first = path }

// Start starts containerd again after Stop or Kill, with the same data. It does nothing
// if containerd is running.
func (e *Containerd) Start() {
	e.d.t.Helper()
	e.d.start()
	e.PID = e.d.cmd.Process.Pid
}

// Stop stops containerd as an operator would. Containers keep running.
func (e *Containerd) Stop() { e.d.t.Helper(); e.d.end(syscall.SIGTERM) }

// Kill ends containerd as a crash would. Containers keep running.
func (e *Containerd) Kill() { e.d.t.Helper(); e.d.end(syscall.SIGKILL) }

// Log is the path of containerd's log.
func (e *Containerd) Log() string { return e.d.log }

// LosePower ends containerd as a power loss would: with everything that it started, and
// without what it had in /run. Start starts it again.
func (e *Containerd) LosePower() {
	e.d.end(syscall.SIGKILL)
	killAll(func(pid int) bool { return strings.Contains(cmdline(pid), e.run+"/") })
	killAll(func(pid int) bool { return rootBelow(pid, e.Root) })
	states, _ := filepath.Glob("/run/containerd/runc/*/*/state.json") // runc's, with the path of the bundle
	for _, path := range states {
		if text, _ := os.ReadFile(path); strings.Contains(string(text), e.run+"/") {
			os.RemoveAll(filepath.Dir(path))
		}
	}
	if err := removeTree(e.run); err != nil {
		e.d.t.Logf("remove containerd's state: %v", err)
	}
}
