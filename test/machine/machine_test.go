package machine_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) {
	if os.Getenv("MESS") != "" {
		machine.Enter()
		mess()
	}
	machine.Main(m)
}

// messStatus is the exit status of a program that leaves a mess.
const messStatus = 7

// mess creates files, mounts, processes and cgroups that must not survive the machine,
// prints its pid namespace, and exits or waits.
func mess() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	sleep := exec.Command("sleep", "12345")
	sleep.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	check(sleep.Start())
	for _, group := range groups(machine.CgroupParent()) {
		check(os.MkdirAll(group+"/below", 0o755))
		// Some hierarchies, mainly cpuset, do not accept processes immediately.
		os.WriteFile(group+"/below/cgroup.procs", fmt.Appendf(nil, "%d", sleep.Process.Pid), 0)
	}
	for _, dir := range []string{"/etc", "/run", "/var/lib", "/var/log"} {
		check(os.WriteFile(dir+"/kollet-mess", nil, 0o644))
	}
	check(syscall.Mount("mess", "/mnt", "tmpfs", 0, ""))
	namespace, err := os.Readlink("/proc/self/ns/pid")
	check(err)
	fmt.Println(namespace, machine.CgroupParent(), os.TempDir())
	if os.Getenv("MESS") == "wait" {
		select {}
	}
	check(hang(filepath.Join(os.TempDir(), "image"), "/mnt"))
	os.Exit(messStatus)
}

// hang starts a process that hangs in the kernel: it writes to a frozen file system.
func hang(image, dir string) error {
	script := `truncate -s 16M "$1" && mkfs.ext4 -q "$1" && mount -o loop "$1" "$2" && fsfreeze --freeze "$2"`
	if out, err := exec.Command("sh", "-c", script, "sh", image, dir).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	writer := exec.Command("touch", dir+"/file")
	if err := writer.Start(); err != nil {
		return err
	}
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", writer.Process.Pid))
		if err != nil || strings.Contains(string(stat), ") D ") {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// groups returns the path of a cgroup in each hierarchy.
func groups(path string) []string {
	roots, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
		roots = []string{"/sys/fs/cgroup/cgroup.procs"} // only v2
	}
	for i, root := range roots {
		roots[i] = filepath.Join(filepath.Dir(root), path)
	}
	return roots
}

// messy returns a command that enters a machine within this one.
func messy(how string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "KOLLET_MACHINE") })
	cmd.Env = append(cmd.Env, "MESS="+how)
	cmd.Stderr = os.Stderr
	return cmd
}

// gone checks that nothing is left of a mess, except files and cgroups if the machine was
// killed.
func gone(t *testing.T, namespace string) {
	t.Helper()
	// The kernel kills them when their init exits, which takes a moment.
	for deadline := time.Now().Add(time.Minute); alive(namespace) != ""; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("a process survived: %s", alive(namespace))
			break
		}
	}
	for _, dir := range []string{"/etc", "/run", "/var/lib", "/var/log"} {
		if _, err := os.Stat(dir + "/kollet-mess"); err == nil {
			t.Errorf("a file got out into %s", dir)
		}
	}
	if text, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(text), " /mnt ") {
		t.Error("a mount got out")
	}
}

// alive returns a process of a pid namespace.
func alive(namespace string) string {
	processes, _ := filepath.Glob("/proc/[0-9]*/ns/pid")
	for _, link := range processes {
		if ns, err := os.Readlink(link); err == nil && ns == namespace {
			return link
		}
	}
	return ""
}

func TestNothingIsLeft(t *testing.T) {
	out, err := messy("end").Output()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != messStatus {
		t.Fatalf("ended with %v, want exit status %d\n%s", err, messStatus, out)
	}
	var namespace, group, temp string
	if _, err := fmt.Sscan(string(out), &namespace, &group, &temp); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
	gone(t, namespace)
	for _, path := range append(groups(group), filepath.Dir(temp)) {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s is left", path)
		}
	}
}

func TestMachineDiesWithItsParent(t *testing.T) {
	cmd := messy("wait")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var namespace, group, temp string
	if _, err := fmt.Fscan(stdout, &namespace, &group, &temp); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Kill()
	// The pipe is closed when its last process is gone: cmd itself, its init, and the one
	// inside.
	stdout.(*os.File).SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := stdout.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("a process inside keeps running: %v", err)
	}
	cmd.Wait()
	gone(t, namespace)
	for _, path := range groups(group) {
		os.Remove(path + "/below")
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestInterruptReachesTheProgram(t *testing.T) {
	cmd := messy("wait")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var namespace string
	if _, err := fmt.Fscan(stdout, &namespace); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	defer time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }).Stop()
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("ended with %v, want exit status 143", err)
	}
	gone(t, namespace)
}

func TestInside(t *testing.T) {
	if !machine.Inside() {
		t.Error("not inside")
	}
	// The network, and /sys.
	interfaces, err := net.Interfaces()
	if err != nil || len(interfaces) != 1 || interfaces[0].Flags&net.FlagUp == 0 {
		t.Errorf("network devices: %v, %v; want lo, up", interfaces, err)
	}
	devices, err := os.ReadDir("/sys/class/net")
	if err != nil || len(devices) != 1 {
		t.Errorf("/sys/class/net: %v, %v; want lo", devices, err)
	}
	// The cgroups of the host.
	found := groups("")
	if len(found) == 0 {
		t.Error("no cgroups in /sys/fs/cgroup")
	}
	for _, group := range found {
		if err := syscall.Access(group+"/cgroup.procs", 2); err != nil {
			t.Errorf("%s: %v", group, err)
		}
	}
	if name, _ := os.ReadFile("/proc/1/comm"); strings.TrimSpace(string(name)) == "systemd" {
		t.Error("pid 1 is that of the machine outside")
	}
	if _, err := os.Stat("/run/lock"); err != nil {
		t.Error(err)
	}
}
