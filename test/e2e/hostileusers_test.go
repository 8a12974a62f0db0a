package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/test/nodetest"
)

// endlessUsers has a service, which is root in its container, replace the lists of users, at which
// its engine or kollet-start would wait when it is started again.
func endlessUsers(t *testing.T, h *hostile) {
	const probe = "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 5s, stable: 50ms}]\n"
	h.configure(sane, probe)
	h.ends(0, "bootstrap")
	h.plants("fifo", "/etc/passwd", "")
	h.configure("command: [fail, x]\n", probe)
	contains(t, h.ends(4, "upgrade").Stderr, "/etc/passwd")
	contains(t, h.ends(4, "recover").Stderr, "/etc/passwd")
	h.ends(0, "gc")
	h.configure(sane, probe, "environment: {ROUND: two}\n")
	h.ends(0, "upgrade")
	h.ends(0, "verify")
	h.ends(0, "gc")
}

// waitingRestart has a service replace a list of users and exit: its engine starts it again and
// waits, and answers nothing about it.
func waitingRestart(t *testing.T, h *hostile) {
	const probe = "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 5s, stable: 50ms}]\n"
	h.configure(sane, probe)
	h.ends(0, "bootstrap")
	h.plants("fifo", "/etc/passwd", "")
	first := h.Service("mallory").PID
	at, err := host.Real().Membership(first)
	check(t, err)
	id := at.Container()
	check(t, syscall.Kill(first, syscall.SIGKILL))
	h.Await("its engine starts it again", func() bool { return startOf(id) != 0 })
	begun := time.Now()
	h.ends(0, "status")
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("kollet status took %v", took)
	}
	if pid := startOf(id); pid != 0 {
		t.Errorf("process %d still waits", pid)
	}
	contains(t, h.ends(1, "verify").Stdout, "mallory is not running")
	h.ends(0, "upgrade")
	h.ends(0, "verify")
	h.ends(0, "gc")
}

// waitingDocker does what docs/recovery.md says about a FIFO that Docker waits for.
func waitingDocker(t *testing.T, h *hostile, engine nodetest.Engine) {
	h.configure(sane, "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 5s, stable: 50ms}]\n")
	h.ends(0, "bootstrap")
	h.plants("fifo", "/etc/passwd", "")
	mallory := h.Service("mallory")
	check(t, syscall.Kill(mallory.PID, syscall.SIGKILL))
	h.Await("Docker does not answer about the container", func() bool {
		return strings.Contains(h.Kollet("--engine-timeout", "2s", "status").Stdout, "mallory: inspecting container")
	})
	root := filepath.Dir(filepath.Dir(engine.Files(h.Root, mallory.Container)))
	run(t, exec.Command("sh", "-c", documentedScript(t, "overlay2"), "-", root, mallory.Container))
	h.Await("the service runs", func() bool { return h.Service("mallory").State == "running" })
	h.ends(0, "upgrade")
	h.ends(0, "verify")
	h.ends(0, "gc")
}

// waitingPodman has a service replace a list of users and exit: Podman starts it again and waits, and
// does not say any longer what containers there are. kollet lets it continue.
func waitingPodman(t *testing.T, h *hostile) {
	h.configure(sane, "healthcheck: [{tcp: \"127.0.0.1:7001\", start_period: 5s, stable: 50ms}]\n")
	h.ends(0, "bootstrap")
	h.plants("fifo", "/etc/passwd", "")
	h.plants("fifo", "/etc/group", "")
	first := h.Service("mallory").PID
	check(t, syscall.Kill(first, syscall.SIGKILL))
	h.Await("Podman does not answer", func() bool {
		return strings.Contains(h.Kollet("--engine-timeout", "2s", "status").All(), "did not answer")
	})
	begun := time.Now()
	h.ends(0, "status")
	if took := time.Since(begun); took > 30*time.Second {
		t.Errorf("kollet status took %v", took)
	}
	h.Await("the service runs", func() bool { return h.Service("mallory").State == "running" })
	h.ends(0, "verify")
	h.configure(sane, "environment: {ROUND: two}\n")
	h.ends(0, "upgrade")
	h.ends(0, "verify")
	h.ends(0, "gc")
}

// documentedScript returns the script in docs/recovery.md that has a word.
func documentedScript(t *testing.T, word string) string {
	t.Helper()
	data, err := os.ReadFile("../../docs/recovery.md")
	check(t, err)
	for i, block := range strings.Split(string(data), "```") {
		if i%2 == 1 && strings.Contains(block, word) {
			_, script, _ := strings.Cut(block, "\n")
			return script
		}
	}
	t.Fatalf("docs/recovery.md has no script with %s", word)
	return ""
}

// startOf returns the process of runc in a container that is being started, 0 if there is none.
func startOf(id string) int {
	pids, _ := host.Real().Processes()
	for _, pid := range pids {
		if name, _ := host.Real().CommandName(pid); name == "runc:[2:INIT]" && host.Real().Runs(pid, id) {
			return pid
		}
	}
	return 0
}
