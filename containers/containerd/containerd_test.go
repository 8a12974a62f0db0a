package containerd_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/containerd"
	"github.com/kollet/kollet/test/machine"
)

// TestMain also runs the log writer, as kollet does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == containerd.LogCommand {
		if err := containerd.WriteLog(os.Args); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	machine.Main(m)
}

func TestConformance(t *testing.T) {
	daemon := machine.NewContainerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon)
	info, err := engine.Info(t.Context())
	must(t, err)
	conformance.Run(t, conformance.Subject{
		Engine:   engine,
		Registry: conformance.Registry{Addr: registry.Addr, Stop: registry.Stop, Start: registry.Start},
		Restart:  func() { daemon.Stop(); daemon.Start() },
		Crash:    func() { daemon.Kill(); daemon.Start() },
		Pause: func(id string) *exec.Cmd {
			return exec.Command("ctr", "--address", daemon.Address, "--namespace", strings.Trim(machine.CgroupParent(), "/"), "tasks", "pause", id)
		},
		Layouts:      true,
		ForgetsExits: !strings.HasPrefix(info.Version, "1.6."),
	})
}

// connect uses a namespace with the name of the test machine's cgroup, so that the
// containers' cgroups are below it.
func connect(t *testing.T, daemon *machine.Containerd) *containerd.Engine {
	t.Helper()
	engine, err := containerd.New(containerd.Config{
		Address: daemon.Address + "?namespace=" + strings.Trim(machine.CgroupParent(), "/"),
		Root:    machine.Dir(t, "kollet"),
	})
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	return engine
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// On many hosts containers cannot get higher limits than the engine; here the
// runtime has lower ones.
func TestRestrictedLimits(t *testing.T) {
	daemon := machine.NewContainerd(t, func(_ machine.TB, dir string, cmd *exec.Cmd) {
		script := "#!/bin/sh\nulimit -l 64\nPATH=$PATH:/usr/sbin\nPATH=${PATH#*:} exec setpriv --bounding-set=-sys_resource -- runc \"$@\"\n"
		must(t, os.MkdirAll(dir, 0o755))
		must(t, os.WriteFile(filepath.Join(dir, "runc"), []byte(script), 0o755))
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	})
	engine := connect(t, daemon)
	base, err := engine.Pull(t.Context(), conformance.Push(t, machine.NewRegistry(t).Addr), nil)
	must(t, err)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "nova-libvirt", Image: base.ID, Ulimits: []containers.Ulimit{{Name: "memlock", Soft: 1 << 20, Hard: 1 << 20}}})
	must(t, err)
	refused := "error setting rlimit"
	if version, err := exec.Command("runc", "--version").Output(); err != nil || strings.HasPrefix(string(version), "crun ") {
		refused = "setrlimit `RLIMIT_MEMLOCK`"
	}
	wantError(t, engine.Start(t.Context(), id), "nova-libvirt", refused, "CAP_SYS_RESOURCE", "ulimits of the service")
}
