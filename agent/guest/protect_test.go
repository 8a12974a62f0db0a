package guest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kollet/kollet/test/machine"
)

// What cannot be moved is said, and nothing passes for safe.
func TestProtectFails(t *testing.T) {
	c := newCgroups(t)
	container, _ := c.container("/abc")
	pid := c.sleeper().Process.Pid
	name := c.names()[0]
	c.put(pid, "/abc", name)
	blind := container
	blind.mounts = map[string]string{}
	want := fmt.Sprintf("protect process %d: move it out of %s/abc in cgroup hierarchy %q: ", pid, machine.CgroupParent(), name)
	if err := blind.Protect(t.Context(), []int{pid}); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	want = fmt.Sprintf("processes %d (in %s) would die with their container", pid, name)
	if err := container.prove([]int{pid, os.Getpid()}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := container.prove([]int{os.Getpid()}); err != nil {
		t.Error(err)
	}
	// A move that the kernel takes and does not do is noticed by the proof: here
	// the hierarchy is a directory like any other.
	deaf := container
	deaf.mounts = map[string]string{}
	for _, controller := range strings.Split(name, ",") {
		deaf.mounts[controller] = filepath.Join(t.TempDir(), "cgroup")
	}
	if err := os.MkdirAll(deaf.mounts[name]+"/"+group, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"cgroup.procs", "cpuset.cpus", "cpuset.mems"} {
		if err := os.WriteFile(filepath.Join(deaf.mounts[name], group, file), []byte("0"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := deaf.Protect(t.Context(), []int{pid}); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestHelpers(t *testing.T) {
	c := newCgroups(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var pids, want []int
	for _, name := range []string{"virtlogd", "swtpm", "qemu-pr-helper", "virtlogd2", "libvirtd"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		pid := c.sleeper(path, "1000").Process.Pid
		pids = append(pids, pid)
		if slices.Contains(helpers, name) {
			want = append(want, pid)
		}
	}
	if got := (Container{proc: "/proc"}).Helpers(append(pids, 1<<30)); len(want) != 3 || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A cgroup that is made for the purpose takes processes in every hierarchy, also
// in that of CPU sets, where a new one takes none.
func TestMoveIntoNewCgroup(t *testing.T) {
	c := newCgroups(t)
	container, _ := c.container("/abc")
	pid := c.sleeper().Process.Pid
	fresh := machine.CgroupParent() + "/fresh"
	for _, name := range c.names() {
		if err := container.move(pid, name, fresh); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if got := c.where(pid)[name]; got != fresh {
			t.Errorf("in %q it is in %s", name, got)
		}
	}
}
