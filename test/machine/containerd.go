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

// Containerd is a containerd of the test's own. Which OCI runtime a container
// gets is its client's choice: see Runtime.
type Containerd struct {
	Address string // path of the socket
	Root    string // data root
	PID     int    // as it was last started

	d   *daemon
	run string // directory of its state
}

// ContainerdOption changes how containerd is started.
type ContainerdOption func(t TB, dir string, cmd *exec.Cmd)

// boundedRunc stands before runc in the PATH. Only three commands take a
// document that says what a process gets.
const boundedRunc = `#!/bin/sh
PATH=%s
for word; do
	case $word in create | run | exec) exec %s "$@" ;; esac
done
exec runc "$@"
`

// BoundedRuntime gives containers what can be given where the capability
// bounding set is restricted, and changes nothing elsewhere: privileged
// containers with high resource limits then start. containerd's clients choose
// the runtime, and its shims find runc in the PATH of containerd.
func BoundedRuntime() ContainerdOption {
	return func(t TB, dir string, cmd *exec.Cmd) {
		t.Helper()
		if len(bounded.Missing()) == 0 {
			return
		}
		path := os.Getenv("PATH") + ":/usr/sbin"
		script := fmt.Sprintf(boundedRunc, path, Runtime(t))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("make an OCI runtime: %v", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "runc"), []byte(script), 0o755); err != nil {
			t.Fatalf("make an OCI runtime: %v", err)
		}
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+path)
	}
}

// NewContainerd starts a containerd and waits until it listens. When the test
// ends, it and all processes of its containers are killed and its data is
// removed.
func NewContainerd(t TB, options ...ContainerdOption) *Containerd {
	t.Helper()
	program := program(t, "containerd")
	dir := Dir(t, "containerd")
	run := fmt.Sprintf("/run/containerd-%d", count())
	e := &Containerd{Address: run + "/containerd.sock", Root: dir + "/data", run: run}
	config := dir + "/config.toml"
	text := fmt.Sprintf("version = 2\nroot = %q\nstate = %q\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n[grpc]\n  address = %q\n"+
		"[plugins.\"io.containerd.internal.v1.restart\"]\n  interval = \"1s\"\n", // of the restart monitor; 10s by default
		e.Root, run+"/state", e.Address)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatalf("write containerd's configuration: %v", err)
	}
	e.d = &daemon{
		t: t, name: "containerd", log: filepath.Join(dir, "containerd.log"),
		make: func() *exec.Cmd {
			cmd := exec.Command(program, "--config", config)
			for _, option := range options {
				option(t, filepath.Join(dir, "bin"), cmd)
			}
			return cmd
		},
		probe: func(ctx context.Context) error {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", e.Address)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	t.Cleanup(e.destroy)
	e.d.tellOnFailure()
	e.Start()
	return e
}

// Start starts containerd again, on the same data, after Stop or Kill. It does
// nothing if containerd runs.
func (e *Containerd) Start() {
	e.d.t.Helper()
	e.d.start()
	e.PID = e.d.cmd.Process.Pid
}

// Stop ends containerd as an operator does: containers run on.
func (e *Containerd) Stop() { e.d.t.Helper(); e.d.end(syscall.SIGTERM) }

// Kill ends containerd as a crash does: containers run on.
func (e *Containerd) Kill() { e.d.t.Helper(); e.d.end(syscall.SIGKILL) }

// Log is the path of containerd's log.
func (e *Containerd) Log() string { return e.d.log }

func (e *Containerd) destroy() {
	e.d.end(syscall.SIGKILL)
	killAll(func(pid int) bool { return strings.Contains(cmdline(pid), e.run+"/") })
	killAll(func(pid int) bool { return rootBelow(pid, e.Root) })
	if err := removeTree(e.run); err != nil {
		e.d.t.Logf("remove containerd's state: %v", err)
	}
}
