package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

// Check is one finding of the doctor.
type Check struct {
	Name   string  `json:"name"`
	Level  Verdict `json:"level"`
	Text   string  `json:"text"`
	Remedy string  `json:"remedy,omitempty"`
}

// Verdict of a check.
type Verdict string

const (
	Fine    Verdict = "ok"
	Warning Verdict = "warning" // works, but worth mending
	Bad     Verdict = "problem" // an upgrade would fail, or harm guests
)

// Doctor looks for what makes upgrades fail before one is tried.
func (a *Agent) Doctor(ctx context.Context) []Check {
	engine, info := a.checkEngine(ctx)
	checks := []Check{engine, checkCgroups(), checkCapabilities(), a.checkDisk(a.State())}
	if engine.Level != Bad {
		checks = append(checks, checkLiveRestore(info), a.checkDisk(info.Root), a.checkHostLibvirt(ctx))
	}
	return append(checks, checkMachined(), checkModules(), checkKVM(), checkClock(), checkCloudInit(), a.checkJournal(), a.checkNodeFile())
}

// precheck runs the checks that an upgrade must not begin without.
func (t *transaction) precheck(ctx context.Context) error {
	engine, info := t.checkEngine(ctx)
	checks := []Check{engine, t.checkDisk(t.State())}
	if engine.Level != Bad {
		checks = append(checks, t.checkDisk(info.Root), t.checkHostLibvirt(ctx))
	}
	checks = append(checks, checkShared(t.target.services)...)
	for _, c := range checks {
		if c.Level == Bad {
			return fmt.Errorf("check %s: %s; %s", c.Name, c.Text, c.Remedy)
		}
	}
	return nil
}

func (a *Agent) checkEngine(ctx context.Context) (Check, containers.Info) {
	info, err := a.Engine.Info(ctx)
	if err != nil {
		return Check{"engine", Bad, err.Error(), "start the container engine"}, info
	}
	return Check{Name: "engine", Level: Fine, Text: fmt.Sprintf("%s %s at %s", info.Name, info.Version, info.Address)}, info
}

// checkLiveRestore: without it, a restart of dockerd stops every container, and
// with libvirt's all guests that sit in its cgroup.
func checkLiveRestore(info containers.Info) Check {
	if info.Name == "docker" && !info.LiveRestore {
		return Check{"live-restore", Warning, "a restart of dockerd stops the node's services", `set "live-restore": true in /etc/docker/daemon.json and reload dockerd`}
	}
	return Check{Name: "live-restore", Level: Fine, Text: "services survive a restart of the engine"}
}

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

func (a *Agent) checkDisk(path string) Check {
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

// hostLibvirt is where a libvirt answers, whoever runs it: the node's container
// shares the host's /run.
var hostLibvirt = []string{"/run/libvirt/libvirt-sock", "/run/libvirt/virtqemud-sock"}

// checkHostLibvirt makes sure that no libvirt but the node's own manages guests
// here: two of them would fight over the same guests.
func (a *Agent) checkHostLibvirt(ctx context.Context) Check {
	const remedy = "stop and mask libvirtd on the host: systemctl disable --now libvirtd.service libvirtd.socket"
	for _, socket := range hostLibvirt {
		pid, err := listener(ctx, socket)
		if err != nil {
			continue // nobody answers
		}
		ours, err := a.isOurs(ctx, pid)
		if err != nil {
			return Check{"host libvirt", Warning, err.Error(), remedy}
		}
		if !ours {
			return Check{"host libvirt", Bad, fmt.Sprintf("process %d, which is none of this node's containers, answers at %s", pid, socket), remedy}
		}
	}
	return Check{Name: "host libvirt", Level: Fine, Text: "off"}
}

// listener returns the process that listens at a socket (SO_PEERCRED, unix(7)).
func listener(ctx context.Context, socket string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var perr error
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if perr != nil {
		return 0, perr
	}
	return int(peer.Pid), nil
}

// isOurs reports whether a process is in one of this node's containers: in those
// of Kolla's images, the first process is dumb-init, and libvirtd its child.
func (a *Agent) isOurs(ctx context.Context, pid int) (bool, error) {
	all, err := a.Engine.List(ctx, a.Labels("", 0))
	for _, c := range all {
		if c.State != containers.StateRunning {
			continue
		}
		cgroup, err := a.Host.CgroupOf(c.PID)
		if err != nil {
			continue // it ended meanwhile
		}
		if held, err := cgroup.Holds(pid); c.PID == pid || err == nil && len(held) > 0 {
			return true, nil
		}
	}
	return false, err
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

func (a *Agent) checkJournal() Check {
	open, err := a.unfinished()
	if err != nil {
		return Check{Name: "journal", Level: Bad, Text: err.Error()}
	}
	if open {
		return Check{"journal", Bad, "an upgrade was interrupted", "kollet recover"}
	}
	return Check{Name: "journal", Level: Fine, Text: "no upgrade is open"}
}

func (a *Agent) checkNodeFile() Check {
	_, err := a.read(Options{}, "check")
	var bad node.BadInput
	if errors.As(err, &bad) {
		return Check{"node file", Bad, err.Error(), "mend it; `kollet plan` reads it again"}
	}
	if err != nil {
		return Check{"node file", Bad, err.Error(), "make it readable"}
	}
	return Check{Name: "node file", Level: Fine, Text: a.NodeFilePath()}
}
