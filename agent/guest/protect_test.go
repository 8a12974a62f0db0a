package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/test/machine"
)

// sleeper starts a process that ends with the test.
func sleeper(t *testing.T, program ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if len(program) > 0 {
		cmd = exec.Command(program[0], program[1:]...)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// container starts a container's first process in a cgroup of its own in all
// hierarchies.
func container(t *testing.T, c machine.Cgroups, group string) (host.Cgroup, int) {
	t.Helper()
	pid := sleeper(t).Process.Pid
	c.Put(pid, group, c.Hierarchies()...)
	cgroup, err := host.Real().CgroupOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return cgroup, pid
}

func holds(t *testing.T, c host.Cgroup, pid int) []string {
	t.Helper()
	names, err := c.Holds(pid)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var finder = Finder{Host: host.Real()}

// What kills a container, as the runtime does, leaves protected processes alone.
func TestProtect(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, first := container(t, c, "/abc")
	plain, nested := sleeper(t).Process.Pid, sleeper(t).Process.Pid
	c.Put(plain, "/abc", c.Hierarchies()...)
	c.Put(nested, "/abc/libvirt/guest", c.Hierarchies()...)
	for range 2 { // it may be repeated
		if err := finder.Protect(t.Context(), cgroup, []int{plain, nested}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range []int{plain, nested} {
		if got := holds(t, cgroup, pid); len(got) > 0 {
			t.Errorf("process %d is still held in %q", pid, got)
		}
		where := c.Of(pid)
		for _, name := range c.Hierarchies() {
			if where[name] != "/"+group {
				t.Errorf("process %d is in %s of %q", pid, where[name], name)
			}
		}
	}
	pids, err := cgroup.Processes()
	if err != nil || !slices.Equal(pids, []int{first}) {
		t.Fatalf("left are %v, %v", pids, err)
	}
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGKILL)
	}
	for _, pid := range []int{plain, nested} {
		p, err := host.Open(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if exited, err := p.Exited(0); exited || err != nil {
			t.Errorf("process %d exited: %v, %v", pid, exited, err)
		}
	}
}

// What a process of the container starts after it was moved is born outside.
func TestEvacuate(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, first := container(t, c, "/abc")
	nested := sleeper(t).Process.Pid
	c.Put(nested, "/abc/nested", c.Hierarchies()...)
	at, err := finder.Evacuate(t.Context(), cgroup, "abc", first)
	if err != nil {
		t.Fatal(err)
	}
	if at, err = finder.Evacuate(t.Context(), at, "abc", first); err != nil { // after an interruption
		t.Fatal(err)
	}
	if pids, err := cgroup.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("left are %v, %v", pids, err)
	}
	want := []int{first, nested}
	slices.Sort(want)
	if pids, err := at.Processes(); err != nil || !slices.Equal(pids, want) {
		t.Errorf("moved are %v, %v, want %v", pids, err, want)
	}
	for _, pid := range want {
		for _, name := range c.Hierarchies() {
			if where := c.Of(pid)[name]; where != "/"+group+"-abc" {
				t.Errorf("process %d is in %s of %q", pid, where, name)
			}
		}
	}
}

// What an evacuation that was interrupted left behind follows, also if only some hierarchies
// of the first process were done.
func TestReunite(t *testing.T) {
	c := machine.NewCgroups(t)
	names := c.Hierarchies()
	for _, done := range []int{1, len(names)} {
		id := fmt.Sprintf("abc%d", done)
		old, first := container(t, c, "/"+id)
		plain, nested, other := sleeper(t).Process.Pid, sleeper(t).Process.Pid, sleeper(t).Process.Pid
		c.Put(plain, "/"+id, names...)
		c.Put(nested, "/"+id+"/nested", names...)
		c.Put(other, "/def", names...)
		if err := finder.Reunite(t.Context(), old, id); err != nil { // nothing was begun
			t.Fatal(err)
		}
		if got := holds(t, old, plain); !slices.Equal(got, names) {
			t.Errorf("without an evacuation it was moved: left in %q", got)
		}
		for _, name := range names[:done] {
			if err := old.Move(first, name, group+"-"+id); err != nil {
				t.Fatal(err)
			}
		}
		at, err := host.Real().ContainerCgroup(first, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := finder.Reunite(t.Context(), at, id); err != nil {
			t.Fatal(err)
		}
		for _, pid := range []int{first, plain, nested} {
			if got := holds(t, at, pid); !slices.Equal(got, names) {
				t.Errorf("process %d is with the first one in %q only", pid, got)
			}
			if got := holds(t, old, pid); !slices.Equal(got, names[done:]) {
				t.Errorf("process %d is left in %q", pid, got)
			}
		}
		if got := c.Of(other)[names[0]]; got != machine.CgroupParent()+"/def" {
			t.Errorf("another container's process was moved to %s", got)
		}
	}
}

// Processes that nobody would find again stay where the runtime kills them.
func TestEvacuateExited(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, _ := container(t, c, "/abc")
	other := sleeper(t).Process.Pid
	c.Put(other, "/abc", c.Hierarchies()...)
	gone := exec.Command("true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := finder.Evacuate(t.Context(), cgroup, "abc", gone.Process.Pid); !errors.Is(err, host.ErrExited) {
		t.Errorf("got %v", err)
	}
	if len(holds(t, cgroup, other)) == 0 {
		t.Error("another process was moved")
	}
}

// Limits that libvirt set elsewhere stay in force.
func TestProtectMovesNoMoreThanItMust(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, _ := container(t, c, "/abc")
	pid := sleeper(t).Process.Pid
	names := c.Hierarchies()
	inside, elsewhere := names[:len(names)/2], names[len(names)/2:]
	c.Put(pid, "/abc", inside...)
	c.Put(pid, "/machine/qemu-1", elsewhere...)
	if got := holds(t, cgroup, pid); !slices.Equal(got, inside) {
		t.Errorf("held in %q, want %q", got, inside)
	}
	if err := finder.Protect(t.Context(), cgroup, []int{pid}); err != nil {
		t.Fatal(err)
	}
	where := c.Of(pid)
	for _, name := range elsewhere {
		if where[name] != machine.CgroupParent()+"/machine/qemu-1" {
			t.Errorf("in hierarchy %q it was moved to %s", name, where[name])
		}
	}
	if got := holds(t, cgroup, pid); len(got) > 0 {
		t.Errorf("still held in %q", got)
	}
}

// Processes that have exited need no protection; a zombie is still in its cgroup.
func TestProtectExited(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, _ := container(t, c, "/abc")
	reaped, zombie := sleeper(t), sleeper(t)
	for _, cmd := range []*exec.Cmd{reaped, zombie} {
		c.Put(cmd.Process.Pid, "/abc", c.Hierarchies()...)
		p, err := host.Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		if _, err := p.Exited(-1); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	reaped.Wait()
	if err := finder.Protect(t.Context(), cgroup, []int{reaped.Process.Pid, zombie.Process.Pid}); err != nil {
		t.Error(err)
	}
}

// A process that cannot be moved is an error, and never passes for protected.
func TestProtectFails(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, first := container(t, c, "/abc")
	pid := sleeper(t).Process.Pid
	name := c.Hierarchies()[0]
	c.Put(pid, "/abc", name)
	// Its hierarchies are not mounted.
	unmounted := withMounts(t, first, "")
	want := fmt.Sprintf("protect process %d: move it out of %s/abc in cgroup hierarchy %q: ", pid, machine.CgroupParent(), name)
	if err := finder.Protect(t.Context(), unmounted, []int{pid}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	want = fmt.Sprintf("processes %d (in %s) would die with their container", pid, name)
	if err := checkProtected(cgroup, []int{pid, os.Getpid()}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := checkProtected(cgroup, []int{os.Getpid()}); err != nil {
		t.Error(err)
	}
	// A move that has no effect is noticed by the check: here the hierarchy is a
	// directory like any other.
	dir := filepath.Join(t.TempDir(), "cgroup")
	if err := os.MkdirAll(filepath.Join(dir, group), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cgroup.procs", "cpuset.cpus", "cpuset.mems"} {
		if err := os.WriteFile(filepath.Join(dir, group, file), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fs := "cgroup"
	if name == "" {
		fs = "cgroup2"
	}
	ineffective := withMounts(t, first, fmt.Sprintf("1 0 0:1 / %s rw - %s none rw,%s\n", dir, fs, name))
	if err := finder.Protect(t.Context(), ineffective, []int{pid}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// withMounts is the cgroup of a process on a host with another mount table.
func withMounts(t *testing.T, pid int, table string) host.Cgroup {
	t.Helper()
	h := host.Host{Proc: t.TempDir()}
	processes, err := host.Real().Processes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if err := os.Symlink(host.Real().ProcessPath(p, ""), h.ProcessPath(p, "")); err != nil {
			t.Fatal(err)
		}
	}
	self := filepath.Join(h.Proc, "self")
	if err := os.Mkdir(self, 0o700); err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err == nil {
		err = os.WriteFile(filepath.Join(self, "cgroup"), own, 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(self, "mountinfo"), []byte(table), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cgroup, err := h.CgroupOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return cgroup
}
