package containerd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kollet/kollet/test/needs"
)

// A container's process may have the arguments of another container's shim.
func TestShims(t *testing.T) {
	needs.Root(t)
	const id = "0a1b2c3d"
	arguments := []string{"-c", "echo; read line", "-namespace", "kollet", "-id", id, "delete"}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	shell := filepath.Join(t.TempDir(), "containerd-shim-runc-v2")
	program, err := os.ReadFile("/bin/sh")
	check(err)
	check(os.WriteFile(shell, program, 0o700))
	run := func(cmd *exec.Cmd) (end func()) {
		t.Helper()
		in, err := cmd.StdinPipe()
		check(err)
		out, err := cmd.StdoutPipe()
		check(err)
		check(cmd.Start())
		_, err = out.Read(make([]byte, 1)) // until it runs
		check(err)
		return func() {
			_ = in.Close()
			_ = cmd.Wait() // read fails at the end of its input
		}
	}
	want := func(shim, cleaning bool) {
		t.Helper()
		if s, c := shimsOf(id); s != shim || c != cleaning {
			t.Errorf("got %v, %v, want %v, %v", s, c, shim, cleaning)
		}
	}
	want(false, false)
	inside := exec.Command(shell, arguments...)
	inside.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	end := run(inside)
	want(false, false)
	end()
	end = run(exec.Command(shell, arguments[:len(arguments)-1]...))
	want(true, false)
	end()
	end = run(exec.Command("sh", arguments...))
	want(false, false)
	end()
	end = run(exec.Command(shell, arguments...))
	want(true, true)
	end()
	want(false, false)
}

func TestBundles(t *testing.T) {
	const id = "0a1b2c3d"
	state := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(state, link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at, text, file string
		removed        bool
	}{
		"one that is empty":           {"io.containerd.runtime.v2.task/kollet/" + id, "mkdir %s: file exists: unknown", "", true},
		"one with a configuration":    {"io.containerd.runtime.v2.task/kollet/" + id, "mkdir %s: file exists", "config.json", false},
		"another container's":         {"io.containerd.runtime.v2.task/kollet/" + id + "0", "mkdir %s: file exists", "", false},
		"another directory with logs": {"containers/" + id, "create: mkdir %s: file exists", "log", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(state, c.at)
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(dir, c.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			removeBundle(id, fmt.Errorf(c.text, filepath.Join(link, c.at)))
			if _, err := os.Stat(dir); os.IsNotExist(err) != c.removed {
				t.Errorf("%s: %v", dir, err)
			}
			_ = os.RemoveAll(dir)
		})
	}
}
