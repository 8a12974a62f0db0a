package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/gate"
)

// A script must not be able to tell that its modules were imported before.
func TestPreloadedScriptIsLikeAnother(t *testing.T) {
	for _, tc := range []struct {
		name, first string
		argv        func(s pythonService) []string
	}{
		{"shebang", "#!" + python, func(pythonService) []string { return []string{"service", "--one", "two words", ""} }},
		{"shebang with options", "#! " + python + " -sE ", func(pythonService) []string { return []string{"service"} }},
		{"isolated", "#!" + python + " -I", func(s pythonService) []string { return []string{"service"} }},
		{"through env", "#!/usr/bin/env python3", func(pythonService) []string { return []string{"service", "x"} }},
		{"interpreter and script", "", func(s pythonService) []string { return []string{python, "-u", s.path("service"), "-x"} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			script := describe
			if tc.name == "isolated" { // no module is looked for beside the script
				script = strings.Replace(script, "import helper", "import json as helper; helper.name = helper.seen = 0", 1)
			}
			s := newPythonService(t, tc.first+script)
			s.write("helper.py", helper)
			argv := tc.argv(s)
			words := slices.Clone(argv)
			if argv[0] == "service" {
				words[0] = s.path("service")
			}
			plain := s.start(s.command(false, nil, words...))
			want := decode(t, s.ends(plain, 7))
			out, log := s.runs(7, []string{"email"}, argv...)
			if log != "" {
				t.Errorf("log: %s", log)
			}
			got := decode(t, out)
			for key := range want {
				if !reflect.DeepEqual(got[key], want[key]) {
					t.Errorf("%s:\ngot  %v\nwant %v", key, got[key], want[key])
				}
			}
		})
	}
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

const shebangLine = "#!" + python + "\n"

func TestPreloadImportsBeforeTheGate(t *testing.T) {
	s := newPythonService(t, shebangLine+`"""A service."""
from __future__ import annotations
VERSION = "1"
import slow
from pack import one, value
print("runs after", open(slow.log).read().split())
`)
	s.write("slow.py", "import os\nlog = os.path.join(os.path.dirname(__file__), 'log')\nopen(log, 'a').write('imported ')\n")
	check(t, os.MkdirAll(s.path("pack"), 0o755))
	s.write("pack/__init__.py", "value = 1\n")
	s.write("pack/one.py", "import slow\nopen(slow.log, 'a').write('one ')\n")
	s.write("extra.py", "import slow\nopen(slow.log, 'a').write('extra ')\n")
	check(t, os.MkdirAll(s.path("many/tests"), 0o755))
	for _, name := range []string{"__init__", "_c", "b", "a", "tests/__init__"} {
		s.write("many/"+name+".py", "")
	}
	for _, name := range []string{"b", "a"} {
		s.write("many/"+name+".py", "import slow\nopen(slow.log, 'a').write('"+name+" ')\n")
	}
	r := s.start(s.command(true, []string{"extra", "absent_module.of.another_release", "many.*"}, "service"))
	s.ready(r)
	if data, err := os.ReadFile(s.path("log")); err != nil || string(data) != "imported one extra a b " {
		t.Errorf("at the gate: %q, %v", data, err)
	}
	time.Sleep(50 * time.Millisecond)
	if r.out.String() != "" {
		t.Errorf("it ran before its gate was open: %s", r.out)
	}
	check(t, gate.Open(s.gate))
	if got, want := s.ends(r, 0), "runs after ['imported', 'one', 'extra', 'a', 'b']\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := r.log.String(), "kollet-start: preload: not in this image: absent_module.of.another_release\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
}

// A byte in the FIFO without the file that says open must not let it pass.
func TestPreloadedServiceWaitsForTheFile(t *testing.T) {
	s := newPythonService(t, shebangLine+"print('runs')\n")
	r := s.start(s.command(true, nil, "service"))
	s.ready(r)
	fifo, err := os.OpenFile(filepath.Join(s.gate, gate.FileFIFO), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	check(t, err)
	fifo.Write([]byte("bytes"))
	time.Sleep(200 * time.Millisecond)
	if r.out.String() != "" {
		t.Fatal("it runs")
	}
	// The file without a byte lets it pass at the next tick.
	check(t, os.WriteFile(filepath.Join(s.gate, gate.FileOpen), nil, 0o600))
	if got := s.ends(r, 0); got != "runs\n" {
		t.Errorf("got %q", got)
	}
}

// eventlet replaces functions of the standard library with its own.
func TestPreloadWithPatchedLibrary(t *testing.T) {
	s := newPythonService(t, shebangLine+"import patches\nprint('runs')\n")
	s.write("patches.py", `
import os, select, signal, time
def broken(*args): raise RuntimeError("patched")
for module, names in ((os, "read write close listdir waitpid _exit execve"), (select, "poll select epoll"), (time, "sleep"), (signal, "signal getsignal")):
    for name in names.split():
        setattr(module, name, broken)
`)
	if out, log := s.runs(0, nil, "service"); out != "runs\n" || log != "" {
		t.Errorf("printed %q, log %q", out, log)
	}
}

func TestPreloadFallsBack(t *testing.T) {
	for _, tc := range []struct{ name, module, want string }{
		{"failing import", "raise ValueError('not\\nyet')", "preload: ValueError: not yet; starting without it"},
		{"module without what it needs", "import no_such_thing", "preload: ModuleNotFoundError: No module named 'no_such_thing'; starting without it"},
		{"exits", "import sys; sys.exit(3)", "preload: SystemExit: 3; starting without it"},
		{"changes the environment", "import os; os.environ['MORE'] = 'x'; 1/0", "preload: ZeroDivisionError: division by zero; starting without it"},
		{"changes the process", "import os, signal\nos.chdir('/')\nos.umask(0)\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n1/0", "preload: ZeroDivisionError: division by zero; starting without it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newPythonService(t, shebangLine+`import os, signal, sys
print(sys.argv[1:], "bad" in sys.modules, "MORE" in os.environ, signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, open("/proc/self/status").read().split("SigBlk:")[1].split()[0])
print(os.getcwd(), os.umask(0o77) == 0o77, signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL)
`)
			s.write("bad.py", tc.module)
			defer syscall.Umask(syscall.Umask(0o77))
			out, log := s.runs(0, []string{"bad"}, "service", "a b")
			if want := "['a b'] False False True 0000000000000000\n/tmp True True\n"; out != want {
				t.Errorf("got %q, want %q", out, want)
			}
			if want := "kollet-start: " + tc.want + "\n"; log != want {
				t.Errorf("log %q, want %q", log, want)
			}
		})
	}
}

// A module that closes the log keeps the service from saying so, not from starting.
func TestPreloadWithoutLog(t *testing.T) {
	s := newPythonService(t, shebangLine+"print('runs')\n")
	s.write("bad.py", "import os\nos.close(2)\n1/0\n")
	if out, log := s.runs(0, []string{"bad"}, "service"); out != "runs\n" || log != "" {
		t.Errorf("printed %q, log %q", out, log)
	}
}

// The path of a script may be relative to a directory that a module leaves.
func TestPreloadFindsTheScriptAgain(t *testing.T) {
	for _, module := range []string{"import os; os.chdir('/')", "import os; os.chdir('/'); 1/0"} {
		s := newPythonService(t, "print('runs')\n")
		s.write("leaves.py", module)
		cmd := s.command(true, []string{"leaves"}, python, "service")
		cmd.Dir = s.dir
		r := s.start(cmd)
		s.ready(r)
		check(t, gate.Open(s.gate))
		if out := s.ends(r, 0); out != "runs\n" {
			t.Errorf("%q: printed %q, log %q", module, out, r.log)
		}
	}
}

// A handler of a module holds when the gate is open. Before, the signal ends the
// container.
func TestPreloadKeepsHandlersOfModules(t *testing.T) {
	script := shebangLine + `import os, signal
os.kill(os.getpid(), signal.SIGTERM)
print(signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL)
`
	module := "import signal\nfor s in (signal.SIGTERM, signal.SIGALRM): signal.signal(s, lambda *_: print('handled'))\n"
	s := newPythonService(t, script)
	s.write("handler.py", module)
	if out, _ := s.runs(0, []string{"handler"}, "service"); out != "handled\nTrue\n" {
		t.Errorf("printed %q", out)
	}
	s = newPythonService(t, script)
	s.write("handler.py", module)
	r := s.start(s.command(true, []string{"handler"}, "service"))
	s.ready(r)
	check(t, r.Process.Signal(syscall.SIGTERM))
	time.AfterFunc(10*time.Second, func() { _ = gate.Open(s.gate) })
	if out := s.ends(r, 128+int(syscall.SIGTERM)); out != "" {
		t.Errorf("printed %q", out)
	}
}

// A value that is read before the service has read its configuration files would be
// the default.
func TestPreloadKeepsAwayFromConfiguration(t *testing.T) {
	for name, tc := range map[string]struct{ module, log string }{
		"reads a value":  {"from oslo_config.cfg import CONF\ninterval = CONF.interval\n", "kollet-start: preload: RuntimeError: a module reads interval from the configuration when it is imported; starting without it\n"},
		"reads it later": {"from oslo_config.cfg import CONF\ndef interval(): return CONF.interval\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPythonService(t, shebangLine+"from oslo_config.cfg import CONF\nCONF.values['interval'] = 5\nprint('late' in __import__('sys').modules, CONF.interval)\n")
			check(t, os.MkdirAll(s.path("oslo_config"), 0o755))
			s.write("oslo_config/__init__.py", "")
			s.write("oslo_config/cfg.py", `
class ConfigOpts:
    values = {"interval": 1}
    def __getattr__(self, name): return self._get(name)
    def _get(self, name, group=None, namespace=None): return self.values[name]
CONF = ConfigOpts()
`)
			s.write("late.py", tc.module)
			out, log := s.runs(0, []string{"late"}, "service")
			if log != tc.log || out != map[bool]string{true: "True 5\n", false: "False 5\n"}[tc.log == ""] {
				t.Errorf("printed %q, log %q", out, log)
			}
		})
	}
}

func TestPreloadNotesThreadsAndSockets(t *testing.T) {
	s := newPythonService(t, shebangLine+"import busy\nprint('runs')\nbusy.stop.set()\n")
	s.write("busy.py", `
import socket, threading
stop = threading.Event()
threading.Thread(target=stop.wait).start()
s = socket.socket()
`)
	out, log := s.runs(0, nil, "service")
	want := "kollet-start: preload: a module started threads when it was imported\nkollet-start: preload: a module opened a socket when it was imported\n"
	if out != "runs\n" || log != want {
		t.Errorf("printed %q, log %q, want %q", out, log, want)
	}
}

func TestPreloadingServiceEndsWhenTold(t *testing.T) {
	for _, tc := range []struct{ name, module string }{
		{"at its gate", ""},
		{"while it imports", "import time, os; open(os.path.join(os.path.dirname(__file__), 'imports'), 'w'); time.sleep(60)"},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.Signal(37)} {
			t.Run(fmt.Sprintf("%s, %v", tc.name, signal), func(t *testing.T) {
				s := newPythonService(t, shebangLine+"print('runs')\n")
				s.write("slow.py", tc.module)
				r := s.start(s.command(true, []string{"slow"}, "service"))
				if tc.module == "" {
					s.ready(r)
				}
				for tc.module != "" && !exists(s.path("imports")) {
					time.Sleep(time.Millisecond)
				}
				check(t, r.Process.Signal(signal))
				if out := s.ends(r, 128+int(signal)); out != "" {
					t.Errorf("printed %q", out)
				}
			})
		}
	}
}

// Both signals may be pending when Python calls their handlers, that of the alarm
// first.
func TestPreloadingServiceEndsWhenToldAtItsLimit(t *testing.T) {
	s := newPythonService(t, shebangLine+"print('runs')\n")
	s.write("slow.py", `
import os, signal
both = {signal.SIGALRM, signal.SIGTERM}
signal.pthread_sigmask(signal.SIG_BLOCK, both)
for s in both:
    os.kill(os.getpid(), s)
signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
`)
	r := s.start(s.command(true, []string{"slow"}, "service"))
	if out := s.ends(r, 128+int(syscall.SIGTERM)); out != "" {
		t.Errorf("printed %q", out)
	}
}

// What a script prints when it fails has no frame of preload.py.
func TestPreloadedScriptFailsLikeAnother(t *testing.T) {
	for _, script := range []string{
		"def f():\n    raise ValueError('wrong')\nf()\n",
		"import sys\nsys.exit('said')\n",
		"x = (\n",
		"import sys\nsys.excepthook = lambda *a: print(a[0].__name__)\nraise OSError\n",
		"import atexit, os\natexit.register(lambda: os.write(1, b'end'))\nraise KeyError(1)\n",
	} {
		s := newPythonService(t, shebangLine+script)
		plain := s.start(s.command(false, nil, s.path("service")))
		want := s.ends(plain, 1)
		out, log := s.runs(1, nil, "service")
		if out != want || !strings.HasSuffix(log, plain.log.String()) {
			t.Errorf("%q: got %q, log\n%s\nwant %q, log\n%s", script, out, log, want, plain.log)
		}
	}
}
