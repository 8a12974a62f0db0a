package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

var lifecycleTests = []test{
	{"removed container is not found", func(t *testing.T, s *suite) {
		id := s.create(t, s.script("true"))
		must(t, s.Engine.Remove(t.Context(), id))
		must(t, s.Engine.Remove(t.Context(), id))
		_, err := s.Engine.Inspect(t.Context(), id)
		wantErrorIs(t, err, containers.ErrNotFound)
		_, err = s.Engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"true"}})
		wantErrorIs(t, err, containers.ErrNotFound)
		wantErrorIs(t, s.Engine.Start(t.Context(), id), containers.ErrNotFound)
		wantErrorIs(t, s.Engine.Stop(t.Context(), id, 0), containers.ErrNotFound)
		wantErrorIs(t, s.Engine.Update(t.Context(), id, unique("c"), containers.RestartNo), containers.ErrNotFound)
		wantErrorIs(t, s.Engine.Logs(t.Context(), id, containers.LogOptions{}, os.Stderr), containers.ErrNotFound)
	}},
	{"second start does nothing", func(t *testing.T, s *suite) {
		id := s.start(t, s.script(forever))
		first := s.inspect(t, id)
		must(t, s.Engine.Start(t.Context(), id))
		second := s.inspect(t, id)
		equal(t, "state", second.State, containers.StateRunning)
		equal(t, "pid", second.PID, first.PID)
		equal(t, "start time", second.Started, first.Started)
		// Start may return before runc has executed the program.
		eventually(t, "the pid is the program's", func() bool {
			argv, err := host.Real().CommandLine(first.PID)
			must(t, err)
			return slices.Contains(argv, forever)
		})
	}},
	{"missing program fails at start", func(t *testing.T, s *suite) {
		spec := s.script("")
		spec.Entrypoint = []string{"/bin/missing"}
		id := s.create(t, spec)
		wantError(t, s.Engine.Start(t.Context(), id), spec.Name, "/bin/missing")
		if c := s.inspect(t, id); c.State == containers.StateRunning || c.PID != 0 {
			t.Errorf("state %s, pid %d", c.State, c.PID)
		}
		must(t, s.Engine.Remove(t.Context(), id))
	}},
	{"stop sends the stop signal and waits", func(t *testing.T, s *suite) {
		for signal, want := range map[string]int{"": 7, "SIGTERM": 7, "SIGUSR1": 8} {
			// Stopping takes a second, for which the engine has to wait.
			spec := s.script("trap 'sleep 1; exit 7' TERM; trap 'sleep 1; exit 8' USR1; echo up; sleep 100000 & wait")
			spec.StopSignal = signal
			id := s.start(t, spec)
			s.awaitUp(t, id)
			pid := s.inspect(t, id).PID
			must(t, s.Engine.Stop(t.Context(), id, patience))
			equal(t, "process is alive", alive(t, pid), false)
			c := s.inspect(t, id)
			equal(t, "state", c.State, containers.StateExited)
			equal(t, "exit status", c.ExitCode, want)
			equal(t, "pid", c.PID, 0)
			if c.Finished.Before(c.Started) {
				t.Errorf("started %v, finished %v", c.Started, c.Finished)
			}
			must(t, s.Engine.Stop(t.Context(), id, patience))
			equal(t, "finished", s.inspect(t, id).Finished, c.Finished)
		}
	}},
	{"stop ends a paused container with its stop signal", func(t *testing.T, s *suite) {
		id := s.start(t, s.script("trap 'exit 7' TERM; echo up; sleep 100000 & wait"))
		s.awaitUp(t, id)
		pid := s.inspect(t, id).PID
		if out, err := s.Pause(id).CombinedOutput(); err != nil {
			t.Fatalf("pause: %v: %s", err, out)
		}
		c := s.inspect(t, id)
		equal(t, "state", c.State, containers.StatePaused)
		equal(t, "pid", c.PID, pid)
		must(t, s.Engine.Stop(t.Context(), id, patience))
		c = s.inspect(t, id)
		equal(t, "state", c.State, containers.StateExited)
		equal(t, "exit status", c.ExitCode, 7)
		equal(t, "pid", c.PID, 0)
	}},
	{"part of an id is no name", func(t *testing.T, s *suite) {
		id := s.create(t, s.script("true"))
		for _, length := range []int{2, 12, len(id) - 1} {
			_, err := s.Engine.Inspect(t.Context(), id[:length])
			wantErrorIs(t, err, containers.ErrNotFound)
		}
		equal(t, "container by its id", s.inspect(t, id).ID, id)
	}},
	{"stop kills all processes after the grace period", func(t *testing.T, s *suite) {
		for _, pid := range []string{"", "host"} {
			spec := s.script("trap '' TERM; sleep 98761 & echo up; while true; do sleep 98761; done")
			spec.PID = pid
			id := s.start(t, spec)
			s.awaitUp(t, id)
			must(t, s.Engine.Stop(t.Context(), id, time.Second))
			c := s.inspect(t, id)
			equal(t, "state", c.State, containers.StateExited)
			equal(t, "exit status", c.ExitCode, 128+int(syscall.SIGKILL))
			eventually(t, "children have exited", func() bool { return !running(t, "sleep", "98761") })
		}
	}},
	{"stop of a container that never ran", func(t *testing.T, s *suite) {
		id := s.create(t, s.script("true"))
		must(t, s.Engine.Stop(t.Context(), id, patience))
		equal(t, "state", s.inspect(t, id).State, containers.StateCreated)
	}},
	{"files persist across a restart", func(t *testing.T, s *suite) {
		id := s.start(t, s.script("cat /note; echo written > /note; exit 5"))
		c := s.await(t, id, containers.StateExited)
		equal(t, "exit status", c.ExitCode, 5)
		must(t, s.Engine.Start(t.Context(), id))
		eventually(t, "the note was read", func() bool {
			return strings.Contains(s.logs(t, id, containers.LogOptions{}), "written")
		})
		again := s.await(t, id, containers.StateExited)
		if !again.Started.After(c.Finished) {
			t.Errorf("started %v, before its last run finished at %v", again.Started, c.Finished)
		}
	}},
	{"running container is not removed", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		id := s.start(t, spec)
		wantError(t, s.Engine.Remove(t.Context(), id), spec.Name)
		equal(t, "state", s.inspect(t, id).State, containers.StateRunning)
	}},
	{"killed container is exited", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.PID = "host"
		id := s.start(t, spec)
		must(t, syscall.Kill(s.inspect(t, id).PID, syscall.SIGKILL))
		c := s.await(t, id, containers.StateExited)
		equal(t, "exit status", c.ExitCode, 128+int(syscall.SIGKILL))
	}},
	{"staged container becomes the service in the same process", staged},
	{"restarts are counted until start", countsRestarts},
	{"restart policy applies until stop", func(t *testing.T, s *suite) {
		spec := s.script(forever)
		spec.Restart = containers.RestartUnlessStopped
		id := s.start(t, spec)
		first := s.inspect(t, id)
		must(t, syscall.Kill(first.PID, syscall.SIGKILL))
		eventually(t, "it runs again", func() bool {
			c := s.inspect(t, id)
			return c.State == containers.StateRunning && c.PID != first.PID
		})
		must(t, s.Engine.Stop(t.Context(), id, 0))
		equal(t, "state", s.inspect(t, id).State, containers.StateExited)
		must(t, s.Engine.Start(t.Context(), id))
		equal(t, "state", s.inspect(t, id).State, containers.StateRunning)
	}},
	{"stop ends a crash loop", func(t *testing.T, s *suite) {
		dir := t.TempDir()
		spec := s.script("echo x >> /count/starts; exit 1")
		spec.Restart = containers.RestartUnlessStopped
		spec.Mounts = []containers.Mount{{Type: containers.Bind, Source: dir, Target: "/count"}}
		id := s.start(t, spec)
		starts := func() int {
			text, _ := os.ReadFile(filepath.Join(dir, "starts"))
			return strings.Count(string(text), "x")
		}
		eventually(t, "it was restarted", func() bool { return starts() >= 3 })
		must(t, s.Engine.Stop(t.Context(), id, 0))
		s.await(t, id, containers.StateExited)
		must(t, s.Engine.Remove(t.Context(), id))
	}},
}

// countsRestarts starts a container that exits when it is told to, and then stays.
func countsRestarts(t *testing.T, s *suite) {
	spec, say := s.paced(t, "read word <&9; [ $word = stay ] || exit 3; "+forever)
	spec.Restart = containers.RestartAlways
	id := s.start(t, spec)
	first := s.inspect(t, id)
	equal(t, "restarts of the first run", first.Restarts, 0)
	restarting := false // seen, with the exit status; engines wait longer before each restart
	restarts := 0
	for restarts < 3 || !restarting && restarts < 9 {
		say("exit")
		restarts++
		eventually(t, "it was restarted", func() bool {
			c := s.inspect(t, id)
			if c.State == containers.StateRestarting {
				restarting = restarting || c.ExitCode == 3
				equal(t, "pid between two runs", c.PID, 0)
			}
			return c.State == containers.StateRunning && c.Restarts == restarts
		})
	}
	if !restarting {
		t.Error("it was never restarting after exit status 3")
	}
	say("stay")
	last := s.inspect(t, id)
	if !last.Started.After(first.Started) {
		t.Errorf("first started %v, last %v", first.Started, last.Started)
	}
	s.awaitUp(t, id)
	must(t, s.Engine.Update(t.Context(), id, unique("renamed"), containers.RestartUnlessStopped))
	equal(t, "restarts after an update", s.inspect(t, id).Restarts, restarts)
	must(t, s.Engine.Stop(t.Context(), id, patience))
	must(t, s.Engine.Start(t.Context(), id))
	equal(t, "restarts after another start", s.inspect(t, id).Restarts, 0)
}

// staged does what kollet does with every container: the entrypoint is a static
// program that is mounted into the container, waits, and executes the service.
func staged(t *testing.T, s *suite) {
	gate := t.TempDir()
	fifo := filepath.Join(gate, "fifo")
	must(t, syscall.Mkfifo(fifo, 0o600))
	spec := s.script("")
	spec.Entrypoint = []string{"/.kollet/busybox", "sh", "-c", `echo staged; read word < /.kollet/gate/fifo; echo "$word"; exec "$@"`, "start"}
	spec.Command = []string{"/bin/sh", "-c", "touch /.kollet/gate/open; " + forever}
	spec.Privileged, spec.PID = true, "host"
	spec.Mounts = []containers.Mount{
		{Type: containers.Bind, Source: busybox, Target: "/.kollet/busybox", ReadOnly: true},
		{Type: containers.Bind, Source: gate, Target: "/.kollet/gate"},
	}
	id := s.start(t, spec)
	eventually(t, "it is staged", func() bool { return s.logs(t, id, containers.LogOptions{}) == "staged\n" })
	before := s.inspect(t, id)
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteString("go\n")
	must(t, err)
	must(t, f.Close())
	s.awaitUp(t, id)
	after := s.inspect(t, id)
	equal(t, "pid", after.PID, before.PID)
	if _, err := os.Stat(filepath.Join(gate, "open")); err != nil {
		t.Error(err)
	}
	must(t, s.Engine.Stop(t.Context(), id, patience))
	equal(t, "exit status", s.inspect(t, id).ExitCode, 7)
}

// running reports whether a process with a command line exists.
func running(t *testing.T, argv ...string) bool {
	t.Helper()
	pids, err := host.Real().Processes()
	must(t, err)
	return slices.ContainsFunc(pids, func(pid int) bool {
		line, err := host.Real().CommandLine(pid)
		return err == nil && slices.Equal(line, argv)
	})
}
