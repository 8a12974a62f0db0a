package guest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/process"
	"github.com/kollet/kollet/test/machine"
)

// cgroups makes and removes cgroups below the machine's own.
type cgroups struct {
	t      *testing.T
	mounts map[string]string // by hierarchy, as /proc/PID/cgroup names them
}

func newCgroups(t *testing.T) cgroups {
	t.Helper()
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	self, err := readMembership("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	c := cgroups{t, map[string]string{}}
	for name := range self {
		if at, ok := (Container{mounts: hierarchies(string(mountinfo))}).mount(name); ok {
			c.mounts[name] = at
		}
	}
	if len(c.mounts) == 0 {
		t.Fatal("no cgroup hierarchy is mounted")
	}
	return c
}

func (c cgroups) names() []string { return slices.Sorted(maps.Keys(c.mounts)) }

// put moves a process into a cgroup below the machine's, which is made, in the
// given hierarchies.
func (c cgroups) put(pid int, group string, names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.write(pid, name, group, "cgroup.procs")
	}
}

func (c cgroups) write(id int, name, group, file string) {
	c.t.Helper()
	at := c.mounts[name]
	for _, part := range strings.Split(strings.Trim(machine.CgroupParent()+group, "/"), "/") {
		above := at
		at = filepath.Join(at, part)
		if err := os.MkdirAll(at, 0o755); err != nil {
			c.t.Fatal(err)
		}
		if strings.Contains(name, "cpuset") {
			if err := inheritCPUs(above, at); err != nil {
				c.t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(at, file), []byte(strconv.Itoa(id)), 0); err != nil {
		c.t.Fatalf("put %d into %s: %v", id, at, err)
	}
}

// sleeper starts a process that ends with the test.
func (c cgroups) sleeper(program ...string) *exec.Cmd {
	c.t.Helper()
	cmd := exec.Command("sleep", "1000")
	if len(program) > 0 {
		cmd = exec.Command(program[0], program[1:]...)
	}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// container starts a container's first process in a cgroup of its own in all
// hierarchies.
func (c cgroups) container(group string) (Container, int) {
	c.t.Helper()
	pid := c.sleeper().Process.Pid
	c.put(pid, group, c.names()...)
	container, err := ContainerOf("/proc", pid)
	if err != nil {
		c.t.Fatal(err)
	}
	return container, pid
}

// where tells a process's cgroups, by hierarchy.
func (c cgroups) where(pid int) membership {
	c.t.Helper()
	m, err := readMembership(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func holds(t *testing.T, c Container, pid int) []string {
	t.Helper()
	names, err := c.Holds(pid)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// What kills a container, as the runtime does, leaves protected processes alone.
func TestProtect(t *testing.T) {
	c := newCgroups(t)
	container, first := c.container("/abc")
	plain, nested := c.sleeper().Process.Pid, c.sleeper().Process.Pid
	other := c.sleeper().Process.Pid
	c.put(plain, "/abc", c.names()...)
	c.put(nested, "/abc/libvirt/guest", c.names()...)
	c.put(other, "/abcd", c.names()...) // another container, whose name is longer
	everyone := []int{first, plain, nested}
	slices.Sort(everyone)
	if pids, err := container.Processes(); err != nil || !slices.Equal(pids, everyone) {
		t.Errorf("in it are %v, %v, want %v", pids, err, everyone)
	}
	for _, pid := range everyone {
		if got := holds(t, container, pid); !slices.Equal(got, c.names()) {
			t.Errorf("process %d is held in %q, want %q", pid, got, c.names())
		}
	}
	if got := holds(t, container, other); len(got) > 0 {
		t.Errorf("another container's process is held in %q", got)
	}
	for range 2 { // it may be repeated
		if err := container.Protect(t.Context(), []int{plain, nested}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pid := range []int{plain, nested} {
		if got := holds(t, container, pid); len(got) > 0 {
			t.Errorf("process %d is still held in %q", pid, got)
		}
		for name, at := range c.where(pid) {
			if c.mounts[name] != "" && at != "/"+group {
				t.Errorf("process %d is in %s of %q", pid, at, name)
			}
		}
	}
	pids, err := container.Processes()
	if err != nil || !slices.Equal(pids, []int{first}) {
		t.Fatalf("left are %v, %v", pids, err)
	}
	for _, pid := range pids {
		unix.Kill(pid, unix.SIGKILL)
	}
	for _, pid := range []int{plain, nested} {
		p, err := process.Open(pid)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if ended, err := p.Ended(0); ended || err != nil {
			t.Errorf("process %d ended: %v, %v", pid, ended, err)
		}
	}
}

// Limits that libvirt set elsewhere stay in force.
func TestProtectMovesNoMoreThanItMust(t *testing.T) {
	c := newCgroups(t)
	container, _ := c.container("/abc")
	pid := c.sleeper().Process.Pid
	names := c.names()
	inside, elsewhere := names[:len(names)/2], names[len(names)/2:]
	c.put(pid, "/abc", inside...)
	c.put(pid, "/machine/qemu-1", elsewhere...)
	if got := holds(t, container, pid); !slices.Equal(got, inside) {
		t.Errorf("held in %q, want %q", got, inside)
	}
	if err := container.Protect(t.Context(), []int{pid}); err != nil {
		t.Fatal(err)
	}
	where := c.where(pid)
	for _, name := range elsewhere {
		if where[name] != machine.CgroupParent()+"/machine/qemu-1" {
			t.Errorf("in hierarchy %q it was moved to %s", name, where[name])
		}
	}
	if got := holds(t, container, pid); len(got) > 0 {
		t.Errorf("still held in %q", got)
	}
}

// One thread in the container is enough for its end to be the process's. Only
// cgroup v1 lets threads sit apart.
func TestProtectThreads(t *testing.T) {
	c := newCgroups(t)
	container, _ := c.container("/abc")
	for _, name := range c.names() {
		if name == "" {
			continue
		}
		t.Setenv(waits, "1")
		cmd := exec.Command("/proc/self/exe")
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { in.Close(); cmd.Wait() })
		thread := 0
		for thread == 0 {
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", cmd.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			if len(tasks) > 1 {
				thread, _ = strconv.Atoi(tasks[len(tasks)-1].Name())
			}
		}
		c.write(thread, name, "/abc", "tasks")
		if got := holds(t, container, cmd.Process.Pid); !slices.Equal(got, []string{name}) {
			t.Errorf("held in %q, want %q", got, name)
		}
		if err := container.Protect(t.Context(), []int{cmd.Process.Pid}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := holds(t, container, cmd.Process.Pid); len(got) > 0 {
			t.Errorf("still held in %q", got)
		}
	}
}

// What ends meanwhile needs no protection; a zombie still sits where it was.
func TestProtectWhatEnded(t *testing.T) {
	c := newCgroups(t)
	container, first := c.container("/abc")
	reaped, zombie := c.sleeper(), c.sleeper()
	for _, cmd := range []*exec.Cmd{reaped, zombie} {
		c.put(cmd.Process.Pid, "/abc", c.names()...)
		p, err := process.Open(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		cmd.Process.Kill()
		if _, err := p.Ended(-1); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	reaped.Wait()
	if err := container.Protect(t.Context(), []int{reaped.Process.Pid, zombie.Process.Pid}); err != nil {
		t.Error(err)
	}
	for _, pid := range []int{reaped.Process.Pid, zombie.Process.Pid} {
		if got := holds(t, container, pid); len(got) > 0 {
			t.Errorf("process %d, which ended, is held in %q", pid, got)
		}
	}
	// The cgroups of a container that is gone hold nobody.
	unix.Kill(first, unix.SIGKILL)
	if _, err := ContainerOf("/proc", reaped.Process.Pid); !errors.Is(err, process.ErrEnded) {
		t.Errorf("the container of nobody: %v", err)
	}
	none := Container{proc: "/proc", own: membership{}, mounts: container.mounts}
	for name := range container.own {
		none.own[name] = "/no/such/cgroup"
	}
	if pids, err := none.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("in cgroups that are gone are %v, %v", pids, err)
	}
}

// Where the runtime does not know a hierarchy, the container sits beside it and
// all its other containers: nobody there is the container's.
func TestSharedCgroup(t *testing.T) {
	c := newCgroups(t)
	names := c.names()
	shared, known := names[0], names[1:]
	cmd := exec.Command("sh", "-c", "read go; sleep 1000 & echo $!; read end; kill $!")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	runtime, other := cmd.Process.Pid, c.sleeper().Process.Pid
	c.put(runtime, "/runtime", shared)
	c.put(other, "/runtime", shared)
	var first int
	fmt.Fprintln(in)
	if _, err := fmt.Fscan(out, &first); err != nil {
		t.Fatal(err)
	}
	c.put(first, "/abc", known...)
	if got := c.where(first)[shared]; got != machine.CgroupParent()+"/runtime" {
		t.Fatalf("the container is in %s", got)
	}
	container, err := ContainerOf("/proc", first)
	if err != nil {
		t.Fatal(err)
	}
	if pids, err := container.Processes(); err != nil || !slices.Equal(pids, []int{first}) {
		t.Errorf("in it are %v, %v; the runtime is %d, a neighbour %d", pids, err, runtime, other)
	}
	if got := holds(t, container, first); !slices.Equal(got, known) {
		t.Errorf("held in %q, want %q", got, known)
	}
}

// A container without a cgroup of its own holds nobody: the root is nobody's.
func TestRootCgroup(t *testing.T) {
	c := newCgroups(t)
	root := Container{proc: "/proc", own: membership{}, mounts: c.mounts}
	for name := range c.mounts {
		root.own[name] = "/"
	}
	if got := holds(t, root, os.Getpid()); len(got) > 0 {
		t.Errorf("held in %q", got)
	}
	if pids, err := root.Processes(); err != nil || len(pids) > 0 {
		t.Errorf("%d processes, %v", len(pids), err)
	}
}
