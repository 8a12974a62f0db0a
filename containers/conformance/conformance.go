// Package conformance is the test suite that every implementation of
// containers.Engine must pass. It tests the contract in that interface's comments,
// and does not depend on an engine.
package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// Subject is an engine under test and its environment. The engine and the test share
// file system, mount namespace and pid namespace.
type Subject struct {
	Engine   containers.Engine
	Registry Registry                  // which the engine trusts without TLS
	Restart  func()                    // stops the engine's daemon gracefully, starts it again, and waits until it answers
	Crash    func()                    // the same, but kills the daemon
	Pause    func(id string) *exec.Cmd // the engine's own command that pauses a container
	// StartsStopped: the engine starts stopped containers with RestartAlways when
	// it starts itself, as Docker does.
	StartsStopped bool
	// Layouts: the engine can load OCI image layouts, unlike Docker with a store of its own.
	Layouts bool
	// ManifestIDs: an image's id is the digest of its manifest, as in Docker 29 and its image
	// store. Elsewhere it is that of its configuration.
	ManifestIDs bool
	// HidesSizes: the engine does not say how large a layer is that was fetched between two of
	// its reports.
	HidesSizes bool
	// TrustsLayers: the engine does not check the layers of an archive.
	TrustsLayers bool
	// HasHealthchecks: the engine itself can check the health of containers.
	HasHealthchecks bool
	// ForgetsExits: the engine forgets the exit status of a container when it is restarted.
	ForgetsExits bool
}

// Registry is an image registry that can be stopped and started.
type Registry struct {
	Addr        string // HOST:PORT
	Stop, Start func()
}

// Run runs the suite on an engine.
func Run(t *testing.T, subject Subject) {
	s := &suite{Subject: subject}
	var err error
	s.base, err = s.Engine.Pull(t.Context(), Push(t, s.Registry.Addr), nil)
	must(t, err)
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"info", infoTests},
		{"images", imageTests},
		{"load", loadTests},
		{"create", createTests},
		{"environment", environmentTests},
		{"dimensions", dimensionTests},
		{"security", securityTests},
		{"health checks", healthcheckTests},
		{"mounts", mountTests},
		{"lifecycle", lifecycleTests},
		{"users", usersTests},
		{"update", updateTests},
		{"exec", execTests},
		{"logs", logTests},
		{"concurrency", concurrencyTests},
		{"restart of the engine", restartTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, test := range part.tests {
				t.Run(test.name, func(t *testing.T) { test.run(t, s) })
			}
		})
	}
}

// test tests one property of an engine.
type test struct {
	name string
	run  func(*testing.T, *suite)
}

type suite struct {
	Subject
	base containers.Image
}

// patience bounds how long a test waits for the engine. It is far more than an
// engine needs.
const patience = 90 * time.Second

var counter atomic.Int64

// unique returns a name that no other container or volume of this run has.
func unique(prefix string) string {
	return fmt.Sprintf("%s-%d-%d", prefix, os.Getpid(), counter.Add(1))
}

// suiteLabel is on every container of the suite.
const suiteLabel = "conformance"

// forever is a script that prints "up", runs until it gets SIGTERM, and then exits
// with status 7.
const forever = "trap 'exit 7' TERM; echo up; sleep 100000 & wait"

// script returns the spec of a container that runs a shell script.
func (s *suite) script(text string) containers.Spec {
	return containers.Spec{
		Name:        unique("c"),
		Image:       s.base.Digest,
		Labels:      map[string]string{suiteLabel: "yes"},
		Entrypoint:  []string{"/bin/sh", "-c"},
		Command:     []string{text},
		NetworkMode: "host",
		Restart:     containers.RestartNo,
	}
}

// paced returns the spec of a container that runs a shell script, and what lets the script
// continue at the next "read x <&9": a busy machine may stretch or swallow any sleep.
func (s *suite) paced(t *testing.T, text string) (spec containers.Spec, say func(word string)) {
	t.Helper()
	gate := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(gate, "fifo"), 0o600))
	words, err := os.OpenFile(filepath.Join(gate, "fifo"), os.O_RDWR, 0) // so that neither side waits for the other to open it
	must(t, err)
	t.Cleanup(func() { words.Close() })
	spec = s.script("exec 9< /gate/fifo; " + text)
	spec.Mounts = []containers.Mount{{Type: containers.Bind, Source: gate, Target: "/gate"}}
	return spec, func(word string) {
		t.Helper()
		_, err := words.WriteString(word + "\n")
		must(t, err)
	}
}

// create creates a container that is removed after the test.
func (s *suite) create(t *testing.T, spec containers.Spec) string {
	t.Helper()
	id, err := s.Engine.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.removeLater(t, id)
	return id
}

func (s *suite) removeLater(t *testing.T, id string) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Engine.Stop(ctx, id, 0); err != nil && !errors.Is(err, containers.ErrNotFound) {
			t.Error(err)
		}
		if err := s.Engine.Remove(ctx, id); err != nil {
			t.Error(err)
		}
	})
}

// start creates and starts a container.
func (s *suite) start(t *testing.T, spec containers.Spec) string {
	t.Helper()
	id := s.create(t, spec)
	must(t, s.Engine.Start(t.Context(), id))
	return id
}

// run starts a container, waits until it exits, and returns its output without
// leading and trailing spaces.
func (s *suite) run(t *testing.T, spec containers.Spec) string {
	t.Helper()
	id := s.start(t, spec)
	c := s.await(t, id, containers.StateExited)
	out := s.logs(t, id, containers.LogOptions{})
	if c.ExitCode != 0 {
		t.Errorf("exit status %d, output:\n%s", c.ExitCode, out)
	}
	return strings.TrimSpace(out)
}

func (s *suite) logs(t *testing.T, id string, opts containers.LogOptions) string {
	t.Helper()
	var out bytes.Buffer
	must(t, s.Engine.Logs(t.Context(), id, opts, &out))
	return out.String()
}

func (s *suite) inspect(t *testing.T, id string) containers.Container {
	t.Helper()
	c, err := s.Engine.Inspect(t.Context(), id)
	must(t, err)
	return c
}

// await waits until a container has a state.
func (s *suite) await(t *testing.T, id string, state containers.State) containers.Container {
	t.Helper()
	var c containers.Container
	eventually(t, fmt.Sprintf("container %s is %s", id, state), func() bool {
		c = s.inspect(t, id)
		return c.State == state
	})
	return c
}

// awaitUp waits until a container has printed "up".
func (s *suite) awaitUp(t *testing.T, id string) {
	t.Helper()
	eventually(t, "container "+id+" is up", func() bool {
		return strings.Contains(s.logs(t, id, containers.LogOptions{}), "up\n")
	})
}

// exec runs a command, which must exit with status 0, and returns its output.
func (s *suite) exec(t *testing.T, id string, argv ...string) string {
	t.Helper()
	var out bytes.Buffer
	status, err := s.Engine.Exec(t.Context(), id, containers.Exec{Argv: argv, Stdout: &out, Stderr: &out})
	must(t, err)
	if status != 0 {
		t.Fatalf("%q exited with status %d: %s", argv, status, &out)
	}
	return strings.TrimSpace(out.String())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not true after %v: %s", patience, what)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// wantError checks that err is an error of one line that contains all words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range append(words, "") {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not contain %q, or has several lines", err, w)
		}
	}
}

func wantErrorIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

// alive reports whether a process exists and has not exited.
func alive(t *testing.T, pid int) bool {
	t.Helper()
	p, err := host.Open(pid)
	if errors.Is(err, host.ErrExited) {
		return false
	}
	must(t, err)
	defer p.Close()
	exited, err := p.Exited(0)
	must(t, err)
	return !exited
}
