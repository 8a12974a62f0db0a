package host_test

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/host"
)

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	h := host.Host{Root: dir, Run: filepath.Join(dir, "run")}
	if h.RunsSystemd() || h.HasFile("/dev/kvm") {
		t.Error("an empty machine has systemd or KVM")
	}
	write(t, dir+"/run/systemd/system/x", "")
	write(t, dir+"/dev/kvm", "")
	if !h.RunsSystemd() || !h.HasFile("/dev/kvm") {
		t.Error("systemd or KVM is not found")
	}
}

// The kernel's own view of the bounding set is in /proc.
func TestMissingCapabilities(t *testing.T) {
	missing, err := host.Real().MissingCapabilities()
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "CapBnd:\t")
	line, _, _ := strings.Cut(after, "\n")
	bounding, err := strconv.ParseUint(line, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	last, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		t.Fatal(err)
	}
	top, err := strconv.Atoi(strings.TrimSpace(string(last)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(missing), top+1-bits.OnesCount64(bounding); got != want {
		t.Errorf("%d are missing, want %d: %v", got, want, missing)
	}
	for _, name := range missing {
		if name != strings.ToUpper(name) || !strings.HasPrefix(name, "CAP_") {
			t.Errorf("%q is no name of a capability", name)
		}
	}
}

func TestProcesses(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/20/cmdline", "/var/lib/log-writer\x00--id\x00")
	write(t, proc+"/20/comm", "log-writer\n")
	write(t, proc+"/20/stat", "20 (a) b) S 7 3 3 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 4711 99")
	write(t, proc+"/21/cmdline", "")
	write(t, proc+"/irq/x", "")
	h := host.Host{Proc: proc}
	pids, err := h.Processes()
	slices.Sort(pids)
	if err != nil || !slices.Equal(pids, []int{20, 21}) {
		t.Errorf("%v, %v", pids, err)
	}
	if args, err := h.CommandLine(20); err != nil || !slices.Equal(args, []string{"/var/lib/log-writer", "--id"}) {
		t.Errorf("%q, %v", args, err)
	}
	if args, err := h.CommandLine(21); err != nil || len(args) > 0 {
		t.Errorf("a kernel thread: %q, %v", args, err)
	}
	if name, err := h.CommandName(20); err != nil || name != "log-writer" {
		t.Errorf("%q, %v", name, err)
	}
	if start, err := h.StartTime(20); err != nil || start != 4711 {
		t.Errorf("%d, %v", start, err)
	}
	if age, err := h.Age(20); err == nil {
		t.Errorf("%v without the time since boot", age)
	}
	write(t, proc+"/uptime", "60.50 100.00\n")
	if age, err := h.Age(20); err != nil || age != 13390*time.Millisecond {
		t.Errorf("%v, %v", age, err)
	}
	if age, err := h.Age(22); err == nil {
		t.Errorf("%v of no process", age)
	}
	for argument, want := range map[string]bool{"/var/lib/log-writer": true, "/var/lib/log-write": false, "/var/lib/log-writer2": false, "--id": false} {
		if got, err := h.HasProcess(argument); err != nil || got != want {
			t.Errorf("%s: %v, %v", argument, got, err)
		}
	}
	if _, err := (host.Host{Proc: proc + "/none"}).HasProcess("x"); err == nil {
		t.Error("no error without /proc")
	}
}

// A link in a container's file system leads to a file there, not on the host.
func TestPathInside(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/7/root/etc/nova/nova.conf", "")
	if err := os.Symlink("/etc/nova", proc+"/7/root/link"); err != nil {
		t.Fatal(err)
	}
	got, err := host.Host{Proc: proc}.PathInside(7, "/link/nova.conf")
	if err != nil || got != proc+"/7/root/etc/nova/nova.conf" {
		t.Errorf("%s, %v", got, err)
	}
}

// What others than root can write to is no program of the image.
func TestRootsProgram(t *testing.T) {
	proc, root := t.TempDir(), t.TempDir()
	for _, file := range []string{"/usr/bin/qemu", "/usr/bin/loose", "/data/qemu", "/data/sub/qemu", "/usr/share/x"} {
		write(t, root+file, "")
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(os.Mkdir(proc+"/7", 0o755))
	check(os.Symlink(root, proc+"/7/root")) // as the kernel shows it
	check(os.Chmod(root+"/data", 0o777))
	check(os.Chmod(root+"/usr/bin/loose", 0o757))
	check(os.Symlink("usr/bin", root+"/bin"))
	check(os.Symlink("/data/qemu", root+"/usr/bin/link"))
	check(os.Symlink("/usr/bin/qemu", root+"/data/link"))
	for path, want := range map[string]string{
		"/usr/bin/qemu":         "/usr/bin/qemu",
		"/bin/qemu":             "/usr/bin/qemu",
		"/data/link":            "/usr/bin/qemu", // run by its own path, whatever becomes of the link
		"/data/../usr/bin/qemu": "/usr/bin/qemu",
		"/usr/bin/loose":        "",
		"/usr/bin/link":         "",
		"/data/qemu":            "",
		"/data/sub/qemu":        "",
		"/usr/bin":              "",
		"/none":                 "",
		"":                      "",
	} {
		if got, err := (host.Host{Proc: proc}).RootsProgram(7, path); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: got %q, %v, want %q", path, got, err, want)
		}
	}
}

// A container may put anything in the place of a file.
func TestReadInside(t *testing.T) {
	proc := t.TempDir()
	root := proc + "/7/root"
	write(t, root+"/etc/ca.pem", "certificates")
	write(t, proc+"/outside", "secret")
	for name, target := range map[string]string{"link": "/etc/ca.pem", "out": proc + "/outside", "up": "../../outside"} {
		if err := os.Symlink(target, root+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(root+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	h := host.Host{Proc: proc}
	for path, want := range map[string]string{"/etc/ca.pem": "certificates", "/link": "certificates"} {
		if got, err := h.ReadInside(7, path, 12); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{"/none", "/out", "/up", "/fifo", "/etc"} {
		if got, err := h.ReadInside(7, path, 12); err == nil {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got, err := h.ReadInside(7, "/etc/ca.pem", 11); err == nil {
		t.Errorf("longer than the limit: %q", got)
	}
}

// HoldInside follows links as the process would follow them, the last one only if it may.
func TestHoldInside(t *testing.T) {
	proc := t.TempDir()
	root := proc + "/7/root"
	write(t, root+"/etc/nova/nova.conf", "settings")
	write(t, proc+"/outside/nova.conf", "secret")
	for name, target := range map[string]string{"dir": "/etc/nova", "out": proc + "/outside", "up": "../../outside", "etc/link": "nova/nova.conf"} {
		if err := os.Symlink(target, root+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	h := host.Host{Proc: proc}
	for _, c := range []struct {
		path  string
		flags int
		want  string // below root; empty: nothing
	}{
		{"/etc/nova/nova.conf", 0, "/etc/nova/nova.conf"},
		{"/etc/nova/nova.conf", unix.O_NOFOLLOW, "/etc/nova/nova.conf"},
		{"/dir/nova.conf", unix.O_NOFOLLOW, "/etc/nova/nova.conf"},
		{"/../etc/nova/nova.conf", unix.O_NOFOLLOW, "/etc/nova/nova.conf"},
		{"/dir", 0, "/etc/nova"},
		{"/dir", unix.O_NOFOLLOW, "/dir"},
		{"/etc/link", 0, "/etc/nova/nova.conf"},
		{"/etc/link", unix.O_NOFOLLOW, "/etc/link"},
		{"/", 0, "/"},
		{"/none", 0, ""},
		{"/out/nova.conf", 0, ""},
		{"/up/nova.conf", 0, ""},
		{"/up", 0, ""},
	} {
		held, err := h.HoldInside(7, c.path, c.flags)
		if err != nil {
			if c.want != "" {
				t.Errorf("%s: %v", c.path, err)
			}
			continue
		}
		is, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", held.Fd()))
		held.Close()
		if want := filepath.Join(root, c.want); err != nil || is != want || c.want == "" {
			t.Errorf("%s: held %s, %v, want %s", c.path, is, err, want)
		}
	}
}

// A process can show as much of its memory as its arguments as it likes.
func TestCommandLineIsBounded(t *testing.T) {
	proc := t.TempDir()
	write(t, proc+"/7/cmdline", "qemu\x00-name\x00")
	if err := os.Truncate(proc+"/7/cmdline", 1<<40); err != nil {
		t.Fatal(err)
	}
	if args, err := (host.Host{Proc: proc}).CommandLine(7); err != nil || len(args) != 2 {
		t.Errorf("%d arguments, %v", len(args), err)
	}
}

func TestKillGroup(t *testing.T) {
	host.Real().KillGroup(0)
	const script = `sh -c 'echo child $$; exec sleep 1000' &
(sh -c 'echo grandchild $$; exec sleep 1000'; :) &
setsid sh -c 'echo elsewhere $$; exec sleep 1000' &
wait`
	for name, leads := range map[string]bool{"its own": true, "this test's": false} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("sh", "-c", script)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: leads}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			started := map[string]*host.Process{}
			for range 3 {
				var name string
				var pid int
				if _, err := fmt.Fscanln(out, &name, &pid); err != nil {
					t.Fatal(err)
				}
				started[name] = open(t, pid)
			}
			host.Real().KillGroup(cmd.Process.Pid)
			for _, name := range []string{"child", "grandchild"} {
				if exited, err := started[name].Exited(time.Minute); !exited || err != nil {
					t.Errorf("%s exited: %v, %v", name, exited, err)
				}
			}
			if exited, err := started["elsewhere"].Exited(0); exited || err != nil {
				t.Errorf("the process of another group exited: %v, %v", exited, err)
			}
			_ = started["elsewhere"].Signal(syscall.SIGKILL)
			if err := cmd.Wait(); err == nil {
				t.Error("the process was not killed")
			}
		})
	}
}
