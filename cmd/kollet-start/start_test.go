package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/gate"
)

// service tells that it runs, and stays.
var service = []string{"--", "sh", "-c", "echo runs; exec sleep 1000"}

// runs waits until the service has become what stays.
func (p process) runs(t testing.TB) {
	t.Helper()
	p.says(t, "runs")
	for p.proc(t, "cmdline") != "sleep\x001000\x00" { // it is still the shell
		runtime.Gosched()
	}
}

const copyConfig = `{"command": "x", "config_files": [{"source": "` + gate.Config + `/f", "dest": "/etc/f", "owner": "nova", "perm": "0600"}]}`

func TestServiceRunsOnceTheGateOpens(t *testing.T) {
	c := newContainer(t)
	c.write(t, gate.Config+"/config.json", copyConfig)
	c.write(t, gate.Config+"/f", "one")
	p := c.start(t, append([]string{"--warmup=sh", "--warmup=-c", "--warmup=echo warm >> /tmp/warm"}, service...)...)
	c.staged(t, p)
	if got := c.read(t, "etc/f"); got != "one" {
		t.Errorf("staged with %q in the file", got)
	}

	// A byte without the file that says open must not let it pass.
	fifo, err := os.OpenFile(filepath.Join(c.gate, gate.FileFIFO), os.O_WRONLY, 0)
	check(t, err)
	defer fifo.Close()
	for range 2 { // it comes back for the second when it is done with the first
		fifo.Write([]byte("bytes"))
		for unread := 1; unread > 0; {
			unread, err = unix.IoctlGetInt(int(fifo.Fd()), unix.TIOCINQ)
			check(t, err)
		}
	}
	c.staged(t, p)

	check(t, gate.Open(c.gate))
	p.runs(t)
	p.Process.Kill()
	p.end(t)

	// Its engine restarts it: it passes at once, as it was configured then.
	c.write(t, gate.Config+"/f", "two")
	check(t, os.Remove(filepath.Join(c.gate, gate.FileReady)))
	p = c.start(t, append([]string{"--warmup=sh", "--warmup=-c", "--warmup=echo warm >> /tmp/warm"}, service...)...)
	p.runs(t)
	if got := c.read(t, "etc/f"); got != "one" {
		t.Errorf("after the restart the file holds %q", got)
	}
	if got := c.read(t, "tmp/warm"); got != "warm\n" {
		t.Errorf("warmed up: %q", got)
	}
	if log := p.log(t); log != "" {
		t.Errorf("log: %s", log)
	}
}

func TestStagedContainerEndsWhenTold(t *testing.T) {
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGQUIT, unix.Signal(37)} {
		t.Run(s.String(), func(t *testing.T) {
			c := newContainer(t)
			p := c.start(t, service...)
			c.staged(t, p)
			check(t, p.Process.Signal(s))
			if code, want := p.end(t), 128+int(s); code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if gate.IsOpen(c.gate) {
				t.Error("the gate is open")
			}
		})
	}
}

func TestWarmingContainerEndsWhenTold(t *testing.T) {
	c := newContainer(t)
	fifo := filepath.Join(c.root, "tmp/warming")
	check(t, unix.Mkfifo(fifo, 0o666))
	p := c.start(t, append([]string{"--warmup=sh", "--warmup=-c", "--warmup=echo > /tmp/warming; sleep 1000"}, service...)...)
	_, err := os.ReadFile(fifo) // returns once the warm-up has written
	check(t, err)
	check(t, p.Process.Signal(unix.SIGTERM))
	if code := p.end(t); code != 143 {
		t.Errorf("exit code %d, want 143", code)
	}
}

func TestBecomesTheUser(t *testing.T) {
	for _, tc := range []struct{ user, uid, gid, groups, home string }{
		{"nova", "42436", "42436", "42400 42427", "/var/lib/nova"},
		{"42436", "42436", "42436", "42400 42427", "/var/lib/nova"},
		{"nova:kolla", "42436", "42400", "", "/var/lib/nova"},
		{"1234", "1234", "0", "", "/"},
		{"1234:5678", "1234", "5678", "", "/"},
	} {
		t.Run(tc.user, func(t *testing.T) {
			c := newContainer(t)
			p := c.startProgram(t, append([]string{gate.Start, "--user=" + tc.user, "--warmup=sh", "--warmup=-c", "--warmup=id -u > /tmp/warm; id -G >> /tmp/warm"}, service...), func(cmd *exec.Cmd) {
				// Engines differ in what they hand down: this one hands down much.
				cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN}
			})
			c.staged(t, p)
			check(t, gate.Open(c.gate))
			p.runs(t)

			none := "0000000000000000"
			want := strings.Join([]string{
				"Uid:" + strings.Repeat(" "+tc.uid, 4),
				"Gid:" + strings.Repeat(" "+tc.gid, 4),
				strings.TrimSpace("Groups: " + tc.groups),
				"CapInh: " + none, "CapPrm: " + none, "CapEff: " + none, "CapAmb: " + none,
			}, "\n")
			if got := p.status(t, "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if env := strings.Split(p.proc(t, "environ"), "\x00"); !contains(env, "HOME="+tc.home) {
				t.Errorf("environment is %q, want HOME=%s", env, tc.home)
			}
			warm := strings.TrimSpace(tc.uid + "\n" + strings.TrimSpace(tc.gid+" "+tc.groups))
			if got := strings.TrimSpace(c.read(t, "tmp/warm")); got != warm {
				t.Errorf("the warm-up ran as %q, want %q", got, warm)
			}
		})
	}
}

func contains(list []string, want string) bool {
	return slices.Contains(list, want)
}

// A service must not be able to tell that kollet-start ran before it.
func TestLeavesNoTrace(t *testing.T) {
	sleep := []string{"/bin/sh", "-c", "echo runs; exec sleep 1000"}
	describe := func(p process) string {
		fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.Process.Pid))
		check(t, err)
		var open []string
		for _, fd := range fds {
			open = append(open, fd.Name())
		}
		return strings.Join([]string{
			p.status(t, "Umask", "Uid", "Gid", "SigBlk", "SigIgn", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs"),
			p.proc(t, "limits"),
			p.proc(t, "environ"),
			"open files: " + strings.Join(open, " "),
		}, "\n")
	}
	for name, prepare := range map[string]func(){
		"as a runtime starts it": func() { signal.Reset(syscall.SIGHUP) },
		"with a signal ignored":  func() { signal.Ignore(syscall.SIGHUP) },
	} {
		t.Run(name, func(t *testing.T) {
			prepare()
			defer signal.Reset(syscall.SIGHUP)
			c := newContainer(t)
			direct := c.startProgram(t, sleep, nil)
			direct.runs(t)
			p := c.start(t, append([]string{"--"}, sleep...)...)
			c.staged(t, p)
			check(t, gate.Open(c.gate))
			p.runs(t)
			if got, want := describe(p), describe(direct); got != want {
				t.Errorf("got\n%q\nwant as without kollet-start\n%q", got, want)
			}
		})
	}
}

func TestEnvironmentOfConfiguredService(t *testing.T) {
	c := newContainer(t)
	c.write(t, gate.Config+"/config.json", `{"command": "x"}`)
	p := c.startProgram(t, []string{gate.Start, "--user=nova", "--", "busybox", "env"}, func(cmd *exec.Cmd) {
		cmd.Env = []string{"PATH=/bin", "HOME=/srv/home", "KOLLA_CONFIG_STRATEGY=COPY_ALWAYS"}
	})
	c.staged(t, p)
	check(t, gate.Open(c.gate))
	for _, want := range []string{"PATH=/bin", "HOME=/srv/home", "KOLLA_CONFIG_STRATEGY=COPY_ONCE", ""} {
		p.says(t, want)
	}
}

func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(c container)
		args    []string
		code    int
		want    string
	}{
		{"no program", nil, nil, gate.ExitUsage, "no program: "},
		{"unknown flag", nil, []string{"--verbose", "--", "true"}, gate.ExitUsage, `unknown argument "--verbose"`},
		{"unknown user", nil, []string{"--user=noah", "--", "true"}, gate.ExitUser, `no user "noah" in the image's /etc/passwd`},
		{"unknown group", nil, []string{"--user=nova:noah", "--", "true"}, gate.ExitUser, `no group "noah" in the image's /etc/group`},
		{"bad config", func(c container) { c.write(t, gate.Config+"/config.json", `{"command": 1}`) }, []string{"--", "true"}, gate.ExitConfig, "config.json: command: expected a string"},
		{"missing source", func(c container) { c.write(t, gate.Config+"/config.json", copyConfig) }, []string{"--", "true"}, gate.ExitConfig, "source " + gate.Config + "/f: no such file"},
		{"missing program", nil, []string{"--", "/x"}, gate.ExitProgram, "entrypoint /x: no such file"},
		{"not in PATH", nil, []string{"--", "nova-compute"}, gate.ExitProgram, "entrypoint nova-compute: no such file in PATH /bin"},
		{"below a file", nil, []string{"--", "/etc/passwd/x"}, gate.ExitProgram, "entrypoint /etc/passwd/x: no such file"},
		{"directory", nil, []string{"--", "/etc"}, gate.ExitExec, "entrypoint /etc: not a regular file"},
		{"not executable", nil, []string{"--", "/etc/passwd"}, gate.ExitExec, "entrypoint /etc/passwd: not executable by uid 0"},
		{"not executable by the user", func(c container) { c.install(t, busybox, "/bin/mine", 0o744) }, []string{"--user=nova", "--", "mine"}, gate.ExitExec, "entrypoint mine: not executable by uid 42436"},
		{"out of the user's sight", func(c container) {
			c.install(t, busybox, "/opt/mine", 0o755)
			check(t, os.Chmod(filepath.Join(c.root, "opt"), 0o700))
		}, []string{"--user=nova", "--", "/opt/mine"}, gate.ExitExec, "entrypoint /opt/mine: permission denied"},
		{"missing interpreter", func(c container) { c.program(t, "#!/usr/bin/python9 -s\n") }, []string{"--", "/bin/program"}, gate.ExitProgram, "entrypoint /bin/program: interpreter /usr/bin/python9: no such file"},
		{"interpreter's interpreter", func(c container) {
			c.program(t, "#!/bin/other\n")
			c.write(t, "bin/other", "#! /bin/third")
			check(t, os.Chmod(filepath.Join(c.root, "bin/other"), 0o755))
		}, []string{"--", "/bin/program"}, gate.ExitProgram, "entrypoint /bin/program: interpreter /bin/third: no such file"},
		{"script without an interpreter", func(c container) { c.program(t, "echo runs\n") }, []string{"--", "/bin/program"}, gate.ExitExec, "entrypoint /bin/program: neither a program nor a script"},
		{"missing loader", func(c container) { c.install(t, "/bin/true", "/bin/program", 0o755) }, []string{"--", "/bin/program"}, gate.ExitProgram, "no such file"},
		{"fails in execve", func(c container) { c.program(t, "\x7fELF\x00") }, []string{"--", "/bin/program"}, gate.ExitExec, "entrypoint /bin/program: exec format error"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newContainer(t)
			if tc.prepare != nil {
				tc.prepare(c)
			}
			if tc.name == "fails in execve" {
				check(t, gate.Open(c.gate))
			}
			p := c.start(t, tc.args...)
			if code := p.end(t); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			failed := c.read(t, gate.Dir+"/"+gate.FileFailed)
			if !strings.Contains(failed, tc.want) || strings.Count(failed, "\n") != 1 {
				t.Errorf("told kollet %q, want one line with %q", failed, tc.want)
			}
			if log := p.log(t); log != "kollet-start: "+failed {
				t.Errorf("log is %q, kollet was told %q", log, failed)
			}
			if exists(filepath.Join(c.gate, gate.FileReady)) {
				t.Error("it said that it was ready")
			}
		})
	}
}

func (c container) program(t testing.TB, content string) {
	c.write(t, "bin/program", content)
	check(t, os.Chmod(filepath.Join(c.root, "bin/program"), 0o755))
}

func TestNoGate(t *testing.T) {
	c := newContainer(t)
	check(t, os.RemoveAll(c.gate))
	p := c.start(t, service...)
	if code := p.end(t); code != gate.ExitGate {
		t.Errorf("exit code %d, want %d", code, gate.ExitGate)
	}
	if !strings.Contains(p.log(t), "mount the container's gate directory there") {
		t.Errorf("log: %s", p.log(t))
	}
}

func TestFailureIsTakenBack(t *testing.T) {
	c := newContainer(t)
	c.start(t, "--", "program").end(t)
	c.program(t, "#!/bin/sh\necho runs")
	c.start(t, "--", "program")
	for !exists(filepath.Join(c.gate, gate.FileReady)) {
		runtime.Gosched()
	}
	if exists(filepath.Join(c.gate, gate.FileFailed)) {
		t.Error("the failure is still there")
	}
}

func TestFailingWarmUpIsOnlyNoted(t *testing.T) {
	c := newContainer(t)
	p := c.start(t, append([]string{"--warmup=false"}, service...)...)
	c.staged(t, p)
	check(t, gate.Open(c.gate))
	p.runs(t)
	if log := p.log(t); log != "kollet-start: warm-up false: failed; continuing\n" {
		t.Errorf("log: %q", log)
	}
}
