package host_test

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

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/test/machine"
)

// container starts a container's first process in a cgroup of its own in all
// hierarchies.
func container(t *testing.T, c machine.Cgroups, group string) (host.Cgroup, int) {
	t.Helper()
	pid := child(t, "sleep", "1000").Process.Pid
	c.Put(pid, group, c.Hierarchies()...)
	return cgroupOf(t, pid), pid
}

func cgroupOf(t *testing.T, pid int) host.Cgroup {
	t.Helper()
	cgroup, err := host.Real().CgroupOf(pid)
	if err != nil {
		t.Fatal(err)
	}
	return cgroup
}

func holds(t *testing.T, c host.Cgroup, pid int) []string {
	t.Helper()
	hierarchies, err := c.Holds(pid)
	if err != nil {
		t.Fatal(err)
	}
	return hierarchies
}

func processes(t *testing.T, c host.Cgroup) []int {
	t.Helper()
	pids, err := c.Processes()
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestCgroup(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, first := container(t, c, "/abc")
	plain, nested, other := child(t, "sleep", "1000").Process.Pid, child(t, "sleep", "1000").Process.Pid, child(t, "sleep", "1000").Process.Pid
	c.Put(plain, "/abc", c.Hierarchies()...)
	c.Put(nested, "/abc/libvirt/guest", c.Hierarchies()...)
	c.Put(other, "/abcd", c.Hierarchies()...) // another container with a longer name
	want := []int{first, plain, nested}
	slices.Sort(want)
	if got := processes(t, cgroup); !slices.Equal(got, want) {
		t.Errorf("processes %v, want %v", got, want)
	}
	for _, pid := range want {
		if got := holds(t, cgroup, pid); !slices.Equal(got, c.Hierarchies()) {
			t.Errorf("process %d is held in %q, want %q", pid, got, c.Hierarchies())
		}
	}
	if got := holds(t, cgroup, other); len(got) > 0 {
		t.Errorf("another container's process is held in %q", got)
	}
	if cgroup.Shim != os.Getpid() {
		t.Errorf("the shim is %d, want this process", cgroup.Shim)
	}
	for _, hierarchy := range c.Hierarchies() {
		if got, want := cgroup.Path(hierarchy), machine.CgroupParent()+"/abc"; got != want {
			t.Errorf("in %q its path is %s, want %s", hierarchy, got, want)
		}
	}
}

// One thread in the container is enough for its end to be the process's. Only
// cgroup v1 allows threads in different cgroups.
func TestCgroupHoldsThread(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, _ := container(t, c, "/abc")
	for _, hierarchy := range c.Hierarchies() {
		if hierarchy == "" {
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
		pid, thread := cmd.Process.Pid, 0
		for thread == 0 {
			tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
			if err != nil {
				t.Fatal(err)
			}
			if len(tasks) > 1 {
				thread, _ = strconv.Atoi(tasks[len(tasks)-1].Name())
			}
		}
		c.PutThread(thread, "/abc", hierarchy)
		if got := holds(t, cgroup, pid); !slices.Equal(got, []string{hierarchy}) {
			t.Errorf("held in %q, want %q", got, hierarchy)
		}
		if err := cgroup.Move(pid, hierarchy, machine.CgroupParent()+"/moved"); err != nil {
			t.Errorf("%q: %v", hierarchy, err)
		}
		if got := holds(t, cgroup, pid); len(got) > 0 {
			t.Errorf("still held in %q", got)
		}
	}
}

// A cgroup holds no process that has exited; a zombie is still listed in it.
func TestCgroupOfExited(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, first := container(t, c, "/abc")
	reaped, zombie := child(t, "sleep", "1000"), child(t, "sleep", "1000")
	for _, cmd := range []*exec.Cmd{reaped, zombie} {
		c.Put(cmd.Process.Pid, "/abc", c.Hierarchies()...)
		p := open(t, cmd.Process.Pid)
		cmd.Process.Kill()
		if _, err := p.Exited(-1); err != nil {
			t.Fatal(err)
		}
	}
	reaped.Wait()
	for _, pid := range []int{reaped.Process.Pid, zombie.Process.Pid} {
		if got := holds(t, cgroup, pid); len(got) > 0 {
			t.Errorf("process %d, which has exited, is held in %q", pid, got)
		}
	}
	if err := cgroup.Move(reaped.Process.Pid, c.Hierarchies()[0], machine.CgroupParent()+"/moved"); err != nil {
		t.Errorf("move a process that has exited: %v", err)
	}
	if _, err := host.Real().CgroupOf(reaped.Process.Pid); !errors.Is(err, host.ErrExited) {
		t.Errorf("the cgroup of a process that has exited: %v", err)
	}
	unix.Kill(first, unix.SIGKILL)
}

// A cgroup that has been removed has no processes.
func TestCgroupRemoved(t *testing.T) {
	dir := t.TempDir()
	proc := filepath.Join(dir, "proc")
	write(t, proc+"/1/cgroup", "1:pids:/no/such\n")
	write(t, proc+"/self/cgroup", "1:pids:/\n")
	write(t, proc+"/self/mountinfo", "1 0 0:1 / "+dir+" rw - cgroup cgroup rw,pids\n")
	cgroup, err := host.Host{Proc: proc}.CgroupOf(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := processes(t, cgroup); len(got) > 0 {
		t.Errorf("processes %v", got)
	}
}

// In a hierarchy that the runtime does not use, the container shares a cgroup
// with the shim and other containers: nothing there is the container's.
func TestCgroupShared(t *testing.T) {
	c := machine.NewCgroups(t)
	hierarchies := c.Hierarchies()
	shared, known := hierarchies[0], hierarchies[1:]
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
	shim, other := cmd.Process.Pid, child(t, "sleep", "1000").Process.Pid
	c.Put(shim, "/shim", shared)
	c.Put(other, "/shim", shared)
	var first int
	fmt.Fprintln(in)
	if _, err := fmt.Fscan(out, &first); err != nil {
		t.Fatal(err)
	}
	c.Put(first, "/abc", known...)
	if got := c.Of(first)[shared]; got != machine.CgroupParent()+"/shim" {
		t.Fatalf("the container is in %s", got)
	}
	cgroup := cgroupOf(t, first)
	if got := processes(t, cgroup); len(known) > 0 && !slices.Equal(got, []int{first}) {
		t.Errorf("processes %v; the shim is %d, a neighbour %d", got, shim, other)
	}
	if got := holds(t, cgroup, first); !slices.Equal(got, known) {
		t.Errorf("held in %q, want %q", got, known)
	}
}

// A container without a cgroup of its own holds nothing: the root belongs to no
// container.
func TestCgroupRoot(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/1/cgroup", "2:pids:/\n0::/\n")
	write(t, proc+"/1/task/1/cgroup", "2:pids:/\n0::/\n")
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	write(t, proc+"/self/mountinfo", string(mounts))
	cgroup, err := host.Host{Proc: proc}.CgroupOf(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := holds(t, cgroup, 1); len(got) > 0 {
		t.Errorf("held in %q", got)
	}
	if got := processes(t, cgroup); len(got) > 0 {
		t.Errorf("%d processes", len(got))
	}
}

// Move creates a cgroup that accepts processes in every hierarchy, also in that
// of CPU sets, where a new one accepts none.
func TestCgroupMove(t *testing.T) {
	c := machine.NewCgroups(t)
	cgroup, _ := container(t, c, "/abc")
	pid := child(t, "sleep", "1000").Process.Pid
	fresh := machine.CgroupParent() + "/fresh"
	for _, hierarchy := range c.Hierarchies() {
		if err := cgroup.Move(pid, hierarchy, fresh); err != nil {
			t.Errorf("%q: %v", hierarchy, err)
		}
		if got := c.Of(pid)[hierarchy]; got != fresh {
			t.Errorf("in %q it is in %s", hierarchy, got)
		}
	}
	if err := cgroup.Move(pid, "no-such", fresh); err == nil {
		t.Error("no error for a hierarchy that is not mounted")
	}
}

// Remove leaves systemd's cgroups to systemd.
func TestCgroupRemove(t *testing.T) {
	c := machine.NewCgroups(t)
	h := host.Real()
	h.Run = t.TempDir()
	first := child(t, "sleep", "1000")
	c.Put(first.Process.Pid, "/done", c.Hierarchies()...)
	cgroup, err := h.CgroupOf(first.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	_ = first.Process.Kill()
	_ = first.Wait() // it was killed

	write(t, h.Run+"/systemd/system/x", "")
	cgroup.Remove()
	for _, hierarchy := range c.Hierarchies() {
		if got, want := left(c, hierarchy, "/done"), h.SystemdOwns(hierarchy); got != want {
			t.Errorf("under systemd, hierarchy %q: the cgroup is there: %v", hierarchy, got)
		}
	}
	if err := os.RemoveAll(h.Run + "/systemd"); err != nil {
		t.Fatal(err)
	}
	cgroup.Remove()
	for _, hierarchy := range c.Hierarchies() {
		if left(c, hierarchy, "/done") {
			t.Errorf("without systemd, hierarchy %q: the cgroup is there", hierarchy)
		}
	}
}

// left reports whether a cgroup of the test exists.
func left(c machine.Cgroups, hierarchy, group string) bool {
	_, err := os.Stat(filepath.Join(c.Mount(hierarchy), machine.CgroupParent(), group))
	return err == nil
}

func TestMembership(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/7/cgroup", "12:pids:/docker/abc\n3:cpu,cpuacct:/\n1:name=systemd:/a:b\n0::/machine/x (deleted)\nbroken\n4:x\n")
	want := host.Membership{"pids": "/docker/abc", "cpu,cpuacct": "/", "name=systemd": "/a:b", "": "/machine/x (deleted)"}
	if got, err := (host.Host{Proc: proc}).Membership(7); err != nil || !maps.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := (host.Host{Proc: proc}).Membership(8); !host.Gone(err) {
		t.Errorf("a process that does not exist: %v", err)
	}
}

func TestCgroupV2(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want bool
		fail bool
	}{
		"unified": {"fs/cgroup/cgroup.controllers", true, false},
		"hybrid":  {"fs/cgroup/unified/cgroup.controllers", false, false},
		"none":    {"other", false, true},
	} {
		sys := t.TempDir()
		write(t, filepath.Join(sys, c.file), "")
		if got, err := (host.Host{Sys: sys}).CgroupV2(); got != c.want || (err != nil) != c.fail {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestAppArmor(t *testing.T) {
	for content, want := range map[string]bool{"Y\n": true, "N\n": false} {
		sys := t.TempDir()
		if (host.Host{Sys: sys}).AppArmor() {
			t.Error("without AppArmor in the kernel")
		}
		write(t, filepath.Join(sys, "module/apparmor/parameters/enabled"), content)
		if got := (host.Host{Sys: sys}).AppArmor(); got != want {
			t.Errorf("with %q: %v", content, got)
		}
	}
}

func TestCheckAppArmor(t *testing.T) {
	sys := t.TempDir()
	check := func(profile, want string) {
		t.Helper()
		err := (host.Host{Sys: sys}).CheckAppArmor(profile)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", profile, err, want)
		}
	}
	check("mine", "the kernel of this host has no AppArmor; remove it from security_opt")
	write(t, filepath.Join(sys, "module/apparmor/parameters/enabled"), "Y\n")
	check("mine", "") // the list cannot be read
	write(t, filepath.Join(sys, "kernel/security/apparmor/profiles"), "nvidia_modprobe (enforce)\nmy own (a) (complain)\n/usr/bin/man//filter (enforce)\n")
	for _, profile := range []string{"docker-default", "my own (a)", "/usr/bin/man//filter", ":other:mine", "docker-default//&mine"} {
		check(profile, "")
	}
	for _, profile := range []string{"mine", "nvidia", "my own"} {
		check(profile, "this profile is not loaded; load it with apparmor_parser")
	}
}

func TestLimitsSwap(t *testing.T) {
	for file, want := range map[string]bool{
		"fs/cgroup/memory/memory.memsw.limit_in_bytes": true,
		"fs/cgroup/memory/memory.limit_in_bytes":       false,
		"fs/cgroup/system.slice/memory.swap.max":       true,
		"fs/cgroup/system.slice/memory.max":            false,
	} {
		sys := t.TempDir()
		write(t, filepath.Join(sys, file), "")
		if got := (host.Host{Sys: sys}).LimitsSwap(); got != want {
			t.Errorf("with %s: %v", file, got)
		}
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// An engine's number of a process that has exited may be another process's by now.
func TestOpenContainer(t *testing.T) {
	c := machine.NewCgroups(t)
	_, first := container(t, c, "/abc123")
	p, cgroup, err := host.Real().OpenContainer(first, "abc123")
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	if held := holds(t, cgroup, first); len(held) == 0 {
		t.Error("its cgroup does not hold it")
	}
	ended := child(t, "true")
	if err := ended.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct {
		pid int
		id  string
	}{{first, "def456"}, {os.Getpid(), "abc123"}, {ended.Process.Pid, "abc123"}, {0, "abc123"}} {
		if _, _, err := host.Real().OpenContainer(at.pid, at.id); !errors.Is(err, host.ErrExited) {
			t.Errorf("process %d of container %s: %v", at.pid, at.id, err)
		}
	}
}

func TestContainerOfProcess(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for at, want := range map[string]string{
		"/kollet/" + id:                              id,
		"/kollet/" + id + "/machine/qemu-1":          id,
		"/system.slice/docker-" + id + ".scope":      id,
		"/system.slice/docker-" + id + ".scope/init": id,
		"/kollet-guests-" + id:                       "",
		"/kollet-guests-" + id + ".scope":            "",
		"/kollet/" + id[1:]:                          "",
		"/kollet/" + id + "0":                        "",
		"/system.slice/docker.service":               "",
		"/":                                          "",
		// An engine that runs in a container.
		"/docker/" + strings.Repeat("f", 64) + "/kollet/" + id: id,
	} {
		if got := (host.Membership{"name=systemd": "/", "pids": at}).Container(); got != want {
			t.Errorf("%s: got %q", at, got)
		}
	}
}
