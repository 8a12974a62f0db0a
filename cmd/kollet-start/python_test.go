package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
)

// These tests run preload.py with the system's Python. They need no root: the test
// program starts itself again, and then preloads in place of kollet-start.

const python = "/usr/bin/python3"

// preloadVar has the gate directory in the process that preloads, and in its
// reporter.
const preloadVar = "KOLLET_TEST_PRELOAD"

// preloadForTest is that process, with the command and the modules as arguments.
func preloadForTest(dir string) {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, preloadVar) })
	args := os.Args[1:]
	if len(args) == 1 && args[0] == flagReport {
		if err := reportReady(dir, 0); err != nil {
			os.Exit(gate.ExitGate)
		}
		os.Exit(0)
	}
	exitOnSignal()
	modules, argv, _ := strings.Cut(strings.Join(args, "\x00"), "\x00--\x00")
	words := strings.Split(argv, "\x00")
	program, err := search(words[0], env)
	if err == nil {
		p := preloading{command: command{program, words, env}, dir: dir, start: filepath.Join(filepath.Dir(dir), "start"), modules: strings.Fields(strings.ReplaceAll(modules, "\x00", " "))}
		err = as(account{}, func(func() error) error { return p.run(func() error { return nil }) })
	}
	note("preload: %v; starting without it", err)
	os.Exit(1)
}

// pythonService is a script with a gate.
type pythonService struct {
	t    *testing.T
	dir  string // of the script
	gate string
}

func newPythonService(t *testing.T, script string) pythonService {
	t.Helper()
	s := pythonService{t: t, dir: t.TempDir()}
	s.gate = filepath.Join(t.TempDir(), "gate")
	check(t, gate.Make(s.gate))
	self, err := os.Executable()
	check(t, err)
	reporter := fmt.Sprintf("#!/bin/sh\n%s=%s exec %s \"$@\"\n", preloadVar, s.gate, self)
	check(t, os.WriteFile(filepath.Join(filepath.Dir(s.gate), "start"), []byte(reporter), 0o755))
	s.write("service", script)
	check(t, os.Chmod(s.path("service"), 0o755))
	return s
}

func (s pythonService) path(name string) string { return filepath.Join(s.dir, name) }

func (s pythonService) write(name, content string) {
	s.t.Helper()
	check(s.t, os.WriteFile(s.path(name), []byte(content), 0o644))
}

func (s pythonService) command(preloaded bool, modules []string, argv ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = []string{"PATH=" + s.dir + ":/usr/bin:/bin", "HOME=/nonexistent", "LANG=C", "EMPTY=", "PYTHONDONTWRITEBYTECODE=1"}
	cmd.Dir = "/tmp"
	if preloaded {
		self, err := os.Executable()
		check(s.t, err)
		cmd = exec.Command(self, append(append(slices.Clone(modules), "--"), argv...)...)
		if len(modules) == 0 {
			cmd = exec.Command(self, append([]string{"", "--"}, argv...)...)
		}
		cmd.Env = []string{"PATH=" + s.dir + ":/usr/bin:/bin", "HOME=/nonexistent", "LANG=C", "EMPTY=", "PYTHONDONTWRITEBYTECODE=1", preloadVar + "=" + s.gate}
		cmd.Dir = "/tmp"
	}
	return cmd
}

// running is a service that was started.
type running struct {
	*exec.Cmd
	out, log *output
}

// output is what a process has printed so far. It is read while the process runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func (s pythonService) start(cmd *exec.Cmd) running {
	s.t.Helper()
	r := running{cmd, new(output), new(output)}
	cmd.Stdout, cmd.Stderr = r.out, r.log
	cmd.WaitDelay = 10 * time.Second // if the reporter outlives it
	check(s.t, cmd.Start())
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return r
}

func (s pythonService) ready(r running) {
	s.t.Helper()
	for until := time.Now().Add(20 * time.Second); !exists(filepath.Join(s.gate, gate.FileReady)); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			s.t.Fatalf("not ready; log:\n%s", r.log)
		}
	}
}

// ends waits for the end of a service and returns what it printed.
func (s pythonService) ends(r running, code int) string {
	s.t.Helper()
	hangs := time.AfterFunc(time.Minute, func() { r.Process.Kill() })
	defer hangs.Stop()
	r.Wait()
	if got := r.ProcessState.ExitCode(); got != code {
		s.t.Fatalf("exit status %d, want %d; it printed:\n%s\nlog:\n%s", got, code, r.out, r.log)
	}
	return r.out.String()
}

// runs starts a service, preloaded, opens its gate when it is ready, and waits for
// its end.
func (s pythonService) runs(code int, modules []string, argv ...string) (out, log string) {
	s.t.Helper()
	r := s.start(s.command(true, modules, argv...))
	s.ready(r)
	check(s.t, gate.Open(s.gate))
	out = s.ends(r, code)
	return out, r.log.String()
}

// describe is a script that prints everything it can tell about its process.
const describe = `
import sys
import helper
import json, os, signal, threading, locale

def proc(name):
    with open("/proc/self/" + name, "rb") as f:
        return f.read().decode("latin-1")

def describe():
    main = sys.modules["__main__"]
    status = dict(line.split(":", 1) for line in proc("status").splitlines())
    return {
        "argv": sys.argv, "orig_argv": getattr(sys, "orig_argv", None), "path": sys.path, "flags": str(sys.flags),
        "executable": sys.executable, "prefix": sys.prefix, "stdout": [sys.stdout.line_buffering, sys.stdout.encoding, sys.stdout.errors],
        "main": {k: str(v).split(" at 0x")[0] for k, v in vars(main).items() if k != "__loader__"}, "loader": [type(main.__loader__).__name__, main.__loader__.name, main.__loader__.path],
        "environ": dict(os.environ), "cwd": os.getcwd(), "locale": locale.getpreferredencoding(),
        "signals": {int(s): str(signal.getsignal(s)) for s in signal.valid_signals()},
        "timer": signal.getitimer(signal.ITIMER_REAL),
        "files": {n: os.readlink("/proc/self/fd/" + n).split(":")[0] for n in os.listdir("/proc/self/fd") if int(n) < 40 and os.path.exists("/proc/self/fd/" + n) and not os.readlink("/proc/self/fd/" + n).endswith("/fd")},
        "threads": threading.active_count(), "tasks": len(os.listdir("/proc/self/task")),
        "children": proc("task/%d/children" % os.getpid()),
        "cmdline": proc("cmdline"), "comm": proc("comm"), "environment": proc("environ"), "limits": proc("limits"), "cgroup": proc("cgroup"),
        "exe": os.readlink("/proc/self/exe"),
        "status": {k: status[k] for k in ("Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "CapEff", "NoNewPrivs", "Threads")},
        "helper": [helper.name, helper.seen, helper.__file__],
    }

if __name__ == "__main__":
    print(json.dumps(describe()))
    sys.exit(7)
`

// helper is a module beside the script. What it sees when it is imported must be
// the same too.
const helper = `
import sys, os
name = __name__
seen = [sys.argv, sys.path[0], sys.modules["__main__"].__file__, os.getcwd()]
`
