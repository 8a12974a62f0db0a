package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
)

// environmentTests test what a container sees.
var environmentTests = []test{
	{"environment, user and directory", func(t *testing.T, s *suite) {
		spec := s.script(`echo "$FROM_IMAGE,$BOTH,$A,$EMPTY."; id -u; id -g; pwd`)
		equal(t, "without a spec", s.run(t, spec), "yes,the image,,.\n0\n0\n/work")
		for user, ids := range map[string]string{"nova": "42436\n42436", "65534:42436": "65534\n42436", "nova:root": "42436\n0"} {
			spec.Name, spec.User, spec.WorkingDir = unique("c"), user, "/tmp"
			spec.Env = map[string]string{"BOTH": "the spec", "A": "a = 'b'", "EMPTY": ""}
			equal(t, "with a spec", s.run(t, spec), "yes,the spec,a = 'b',.\n"+ids+"\n/tmp")
		}
	}},
	{"arguments are passed unchanged", func(t *testing.T, s *suite) {
		spec := s.script(`for a; do echo "<$a>"; done`)
		spec.Command = append(spec.Command, "name", "a b", "", "$HOME", "é\tü")
		equal(t, "arguments", s.run(t, spec), "<a b>\n<>\n<$HOME>\n<é\tü>")
	}},
	{"capabilities", func(t *testing.T, s *suite) {
		spec := s.script("grep CapEff /proc/self/status")
		spec.CapDrop, spec.CapAdd = []string{"ALL"}, []string{"CHOWN", "NET_ADMIN"}
		equal(t, "effective capabilities", s.run(t, spec), fmt.Sprintf("CapEff:\t%016x", 1<<unix.CAP_CHOWN|1<<unix.CAP_NET_ADMIN))
		spec = s.script("ip link add kollet0 type dummy 2>/dev/null && ip link del kollet0 && echo added; true")
		spec.NetworkMode = "none"
		equal(t, "without a capability", s.run(t, spec), "")
		spec.Name, spec.CapAdd = unique("c"), []string{"NET_ADMIN"}
		if out := s.run(t, spec); out != "added" && dummyLinks() {
			t.Errorf("no effect of NET_ADMIN: %s", out)
		}
	}},
	{"limits", func(t *testing.T, s *suite) {
		spec := s.script("ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc")
		spec.Ulimits = []containers.Ulimit{{Name: "nofile", Soft: 321, Hard: 654}, {Name: "core", Soft: 0, Hard: 0}}
		equal(t, "limits", s.run(t, spec), "321\n654\n0\n0")
	}},
	{"root file system is writable, or read-only", func(t *testing.T, s *suite) {
		spec := s.script("touch /x && echo written; touch /run/x && echo in run; true")
		spec.Mounts = []containers.Mount{{Type: containers.Tmpfs, Target: "/run"}}
		equal(t, "output", s.run(t, spec), "written\nin run")
		spec.Name, spec.ReadOnly = unique("c"), true
		out := s.run(t, spec)
		if strings.Contains(out, "written") || !strings.Contains(out, "in run") {
			t.Errorf("read-only: %s", out)
		}
	}},
	{"namespaces of the host only if requested", func(t *testing.T, s *suite) {
		set := map[string]func(*containers.Spec){
			"pid": func(c *containers.Spec) { c.PID = "host" },
			"ipc": func(c *containers.Spec) { c.IPC = "host" },
			"net": func(c *containers.Spec) { c.NetworkMode = "host" },
		}
		for ns, ask := range set {
			own, err := os.Readlink("/proc/self/ns/" + ns)
			must(t, err)
			spec := s.script("readlink /proc/self/ns/" + ns)
			spec.NetworkMode = "none"
			if inside := s.run(t, spec); inside == own {
				t.Errorf("%s namespace is the host's without being requested", ns)
			}
			spec.Name = unique("c")
			ask(&spec)
			equal(t, ns+" namespace", s.run(t, spec), own)
		}
		own, err := os.Readlink("/proc/self/ns/cgroup")
		must(t, err)
		spec := s.script("readlink /proc/self/ns/cgroup")
		spec.Cgroup = "host" // otherwise engines differ with cgroup v1
		equal(t, "cgroup namespace", s.run(t, spec), own)
	}},
	{"network of the host, or none", func(t *testing.T, s *suite) {
		spec := s.script("wget -q -O- http://" + s.Registry.Addr + "/v2/ && echo reached; ls /sys/class/net | wc -l")
		if out := s.run(t, spec); !strings.Contains(out, "reached") {
			t.Errorf("host's network: %s", out)
		}
		spec.Name, spec.NetworkMode = unique("c"), "none"
		if out := s.run(t, spec); strings.Contains(out, "reached") {
			t.Errorf("no network: %s", out)
		}
	}},
	{"device", func(t *testing.T, s *suite) {
		device := filepath.Join(t.TempDir(), "zeros")
		must(t, unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) // as /dev/zero, null(4)
		spec := s.script("head -c 3 " + device + " | od -An -tx1")
		spec.Devices = []string{device}
		equal(t, "read from the device", s.run(t, spec), "00 00 00")
	}},
	{"privileged container sees the host's pids", func(t *testing.T, s *suite) {
		spec := s.script(fmt.Sprintf("readlink /proc/%d/exe; grep CapEff /proc/self/status", os.Getpid()))
		spec.Privileged, spec.PID, spec.IPC, spec.Cgroup = true, "host", "host", "host"
		self, err := os.Executable()
		must(t, err)
		exe, caps, _ := strings.Cut(s.run(t, spec), "\n")
		equal(t, "program of a pid", exe, self)
		equal(t, "capabilities", effective(t, caps)&commonCaps, effective(t, bounding(t))&commonCaps)
	}},
	{"privileged container has the host's devices", func(t *testing.T, s *suite) {
		var dev unix.Stat_t
		must(t, unix.Stat("/dev", &dev))
		spec := s.script("stat -c %d /dev; echo ok > /dev/null; test -c /dev/null && mkdir /tmp/m && mount -t tmpfs none /tmp/m && echo mounted")
		spec.Privileged = true
		spec.Mounts = []containers.Mount{{Type: containers.Bind, Source: "/dev", Target: "/dev"}}
		equal(t, "seen", s.run(t, spec), fmt.Sprintf("%d\nmounted", dev.Dev))
	}},
}

// commonCaps are the capabilities that all versions of the engines know; Linux 5.8
// and 5.9 added three.
const commonCaps = 1<<(unix.CAP_AUDIT_READ+1) - 1

// effective parses a line such as "CapEff:	000001ffffffffff", see proc(5).
func effective(t *testing.T, line string) uint64 {
	t.Helper()
	caps, err := strconv.ParseUint(strings.TrimPrefix(line, "CapEff:\t"), 16, 64)
	must(t, err)
	return caps
}

// bounding returns this process's bounding set, as a container with all of it would
// print its effective capabilities.
func bounding(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, _ := strings.Cut(string(status), "CapBnd:")
	line, _, _ := strings.Cut(after, "\n")
	return "CapEff:" + line
}

// dummyLinks reports whether the kernel module that the test uses is loaded.
func dummyLinks() bool {
	_, err := os.Stat("/sys/module/dummy")
	return err == nil
}
