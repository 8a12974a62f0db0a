package doctor

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
)

func checkCgroups() Check {
	var fs unix.Statfs_t
	if err := unix.Statfs("/sys/fs/cgroup", &fs); err != nil {
		return Check{"cgroups", Bad, fmt.Sprintf("/sys/fs/cgroup: %v", err), "mount the cgroup hierarchies"}
	}
	if fs.Type == unix.CGROUP2_SUPER_MAGIC {
		return Check{Name: "cgroups", Level: Fine, Text: "version 2"}
	}
	return Check{Name: "cgroups", Level: Fine, Text: "version 1"}
}

// checkCapabilities: an engine cannot give a privileged container what is
// missing from its own bounding set (capabilities(7)).
func checkCapabilities() Check {
	status, err := os.ReadFile("/proc/self/status")
	last, lerr := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	if err != nil || lerr != nil {
		return Check{"capabilities", Warning, "cannot be read from /proc", "mount /proc"}
	}
	var bounding uint64
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "CapBnd:"); ok {
			bounding, _ = strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	top, _ := strconv.Atoi(strings.TrimSpace(string(last)))
	if all := uint64(1)<<(top+1) - 1; bounding&all != all {
		return Check{"capabilities", Warning, fmt.Sprintf("this host restricts capabilities (bounding set %#x of %#x)", bounding, all), "privileged containers fail unless the engine's runtime leaves the missing ones out; see docs/operations.md"}
	}
	return Check{Name: "capabilities", Level: Fine, Text: "none is withheld from privileged containers"}
}

// checkShared: a mount that is to be shared with a container must be shared on
// the host, which systemd sees to and other inits may not
// (Documentation/filesystems/sharedsubtree.rst in the kernel).
func checkShared(services []generation.Service) []Check {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var checks []Check
	for _, s := range services {
		for _, m := range s.Spec.Mounts {
			if strings.TrimPrefix(m.Propagation, "r") != "shared" {
				continue
			}
			source := m.Source
			if real, err := filepath.EvalSymlinks(source); err == nil {
				source = real // /var/run is a link to /run
			}
			at, shared := mountOf(string(info), source)
			if !shared {
				checks = append(checks, Check{"mounts", Bad, fmt.Sprintf("%s mounts %s shared, but the mount at %s is private", s.Name, m.Source, at), "mount --make-rshared " + at})
			}
		}
	}
	return checks
}

// escapes are those of paths in mountinfo.
var escapes = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountOf finds the mount that a path is on, and whether it is shared
// (proc_pid_mountinfo(5)).
func mountOf(mountinfo, path string) (at string, shared bool) {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) < 7 {
			continue
		}
		point := escapes.Replace(fields[4])
		below, err := filepath.Rel(point, path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") || len(point) < len(at) {
			continue
		}
		at, shared = point, false
		for _, option := range fields[6:] {
			if option == "-" {
				break
			}
			shared = shared || strings.HasPrefix(option, "shared:")
		}
	}
	return at, shared
}

// leastFree is what must be free for an upgrade to begin: room for records and
// for unpacking, well below one image, whose size is not known before the pull.
const leastFree = 512 << 20

// CheckDisk makes sure that the disk of a path has room for an upgrade.
func CheckDisk(path string) Check {
	name := "disk " + path
	existing := path
	for existing != "/" {
		if _, err := os.Stat(existing); err == nil {
			break
		}
		existing = filepath.Dir(existing)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(existing, &fs); err != nil {
		return Check{name, Bad, err.Error(), "make it readable"}
	}
	free := int64(fs.Bavail) * fs.Bsize
	if free < leastFree {
		return Check{name, Bad, fmt.Sprintf("only %s free", units.BytesSize(float64(free))), fmt.Sprintf("free %s; `kollet gc` drops what nothing needs", units.BytesSize(leastFree))}
	}
	return Check{Name: name, Level: Fine, Text: units.BytesSize(float64(free)) + " free"}
}

func checkMachined() Check {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return Check{Name: "machined", Level: Fine, Text: "no systemd here: kollet itself keeps guests apart from their container"}
	}
	if _, err := os.Stat("/lib/systemd/systemd-machined"); err != nil {
		return Check{"machined", Warning, "systemd-machined is not installed", "apt-get install systemd-container: libvirt then puts guests into machine.slice from the start"}
	}
	return Check{Name: "machined", Level: Fine, Text: "installed"}
}

// modules that a compute node's services load by themselves or need.
var modules = []string{"br_netfilter", "tun", "vhost_net"}

func checkModules() Check {
	data, err := os.ReadFile("/proc/modules")
	if err != nil {
		return Check{Name: "modules", Level: Fine, Text: "the kernel has no loadable modules"}
	}
	loaded := map[string]bool{}
	in := bufio.NewScanner(strings.NewReader(string(data)))
	for in.Scan() {
		name, _, _ := strings.Cut(in.Text(), " ")
		loaded[name] = true
	}
	var missing []string
	for _, m := range modules {
		if _, err := os.Stat("/sys/module/" + m); err != nil && !loaded[m] {
			missing = append(missing, m)
		}
	}
	if len(missing) > 0 {
		return Check{"modules", Warning, "not loaded: " + strings.Join(missing, ", "), "modprobe -a " + strings.Join(missing, " ") + ", and list them in /etc/modules-load.d/kollet.conf"}
	}
	return Check{Name: "modules", Level: Fine, Text: strings.Join(modules, ", ")}
}

func checkKVM() Check {
	if _, err := os.Stat("/dev/kvm"); err != nil {
		return Check{"kvm", Warning, "there is no /dev/kvm", "switch virtualisation on in the firmware, or set vars.virt_type: qemu"}
	}
	return Check{Name: "kvm", Level: Fine, Text: "/dev/kvm is there"}
}

// checkClock asks the kernel whether its clock is synchronised (adjtimex(2)).
func checkClock() Check {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Check{"clock", Warning, err.Error(), "let kollet read the clock's state"}
	}
	const timeError = 5 // TIME_ERROR
	if state == timeError || t.Status&unix.STA_UNSYNC != 0 {
		return Check{"clock", Warning, "not synchronised", "run chrony or systemd-timesyncd: services with a wrong clock look dead to their controllers"}
	}
	return Check{Name: "clock", Level: Fine, Text: "synchronised"}
}

func checkCloudInit() Check {
	if _, err := os.Stat("/run/cloud-init"); err != nil {
		return Check{Name: "cloud-init", Level: Fine, Text: "did not run on this boot"}
	}
	if _, err := os.Stat("/var/lib/cloud/instance/boot-finished"); err != nil {
		return Check{"cloud-init", Warning, "has not finished", "wait for it: cloud-init status --wait"}
	}
	return Check{Name: "cloud-init", Level: Fine, Text: "finished"}
}
