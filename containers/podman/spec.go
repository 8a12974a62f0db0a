package podman

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/kollet/kollet/containers"
)

// specLabel has the spec that a container was created from. Podman does not return all of it: it
// computes capabilities from what the process gets, leaves out devices, rounds the size of logs, and
// adds image settings and defaults of its own. Most of that cannot be changed once the
// container exists; readback.go takes the rest from Podman.
const specLabel = "org.kollet.spec"

// logDriver rotates log files by size.
const logDriver = "k8s-file"

type namespace struct {
	Mode string `json:"nsmode,omitempty"`
}

type device struct {
	Path string `json:"path"`
}

type volume struct {
	Name, Dest string
	Options    []string
}

type logConfig struct {
	Driver string `json:"driver,omitempty"`
	Size   int64  `json:"size,omitempty"`
}

type ulimit struct {
	Type string `json:"type"`
	Hard int64  `json:"hard"`
	Soft int64  `json:"soft"`
}

// creation is the body of a request to create a container: what kollet uses of SpecGenerator
// (pkg/specgen/specgen.go).
type creation struct {
	Name         string            `json:"name"`
	Image        string            `json:"image"`
	RawImageName string            `json:"raw_image_name"`
	Labels       map[string]string `json:"labels"`
	Entrypoint   []string          `json:"entrypoint,omitempty"`
	Command      []string          `json:"command,omitempty"`
	WorkDir      string            `json:"work_dir,omitempty"`
	User         string            `json:"user,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	StopSignal   int               `json:"stop_signal,omitempty"`
	Restart      string            `json:"restart_policy"`
	Log          *logConfig        `json:"log_configuration,omitempty"`

	Privileged bool           `json:"privileged"`
	PID        namespace      `json:"pidns"`
	IPC        namespace      `json:"ipcns"`
	Net        namespace      `json:"netns"`
	Cgroup     namespace      `json:"cgroupns"`
	ReadOnly   bool           `json:"read_only_filesystem"`
	CapAdd     []string       `json:"cap_add,omitempty"`
	CapDrop    []string       `json:"cap_drop,omitempty"`
	Devices    []device       `json:"devices,omitempty"`
	Mounts     []specs.Mount  `json:"mounts,omitempty"`
	Volumes    []volume       `json:"volumes,omitempty"`
	Ulimits    []ulimit       `json:"r_limits,omitempty"`
	Resources  map[string]any `json:"resource_limits"`

	NoNewPrivileges bool   `json:"no_new_privileges"`
	AppArmor        string `json:"apparmor_profile,omitempty"`
	Seccomp         string `json:"seccomp_profile_path,omitempty"` // a file that Podman reads now

	// What Podman would do and Docker does not.
	CreateWorkDir  bool   `json:"create_working_dir"` // true: Docker makes it
	HTTPProxy      bool   `json:"httpproxy"`          // pass on the proxies of Podman's own environment
	ManagePasswd   bool   `json:"manage_password"`    // add users to /etc/passwd
	ReadWriteTmpfs bool   `json:"read_write_tmpfs"`   // writable /run and /tmp in a read-only container
	Systemd        string `json:"systemd"`            // prepare for systemd as the first process
	Notify         string `json:"sdnotifyMode"`       // pass on systemd's socket
}

// toPodman converts a canonical spec. seccomp is the path of its profile, if it has one.
func toPodman(spec containers.Spec, seccomp string, cgroupV2 bool) (*creation, error) {
	label, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{specLabel: string(label)}
	maps.Copy(labels, spec.Labels)
	c := &creation{
		Name: spec.Name, Image: spec.Image, RawImageName: spec.Image, Labels: labels,
		Entrypoint: spec.Entrypoint, Command: spec.Command, WorkDir: spec.WorkingDir, User: spec.User,
		Env: spec.Env, Restart: string(spec.Restart),
		Privileged: spec.Privileged, ReadOnly: spec.ReadOnly, CapAdd: capAdd(spec), CapDrop: spec.CapDrop,
		PID: namespace{spec.PID}, IPC: namespace{spec.IPC}, Net: namespace{spec.NetworkMode}, Cgroup: namespace{spec.Cgroup},
		Resources:       resources(spec.Dimensions),
		NoNewPrivileges: spec.Security.NoNewPrivileges, AppArmor: spec.Security.AppArmor, Seccomp: seccomp,
		CreateWorkDir: true, Systemd: "false", Notify: "ignore",
	}
	if spec.Cgroup == "" && cgroupV2 {
		c.Cgroup.Mode = "private"
	}
	if spec.StopSignal != "" {
		if c.StopSignal, err = signalNumber(spec.StopSignal); err != nil {
			return nil, err
		}
	}
	if spec.LogSize != 0 {
		c.Log = &logConfig{Driver: logDriver, Size: spec.LogSize}
	}
	for _, d := range spec.Devices {
		c.Devices = append(c.Devices, device{d})
	}
	for _, u := range spec.Ulimits {
		c.Ulimits = append(c.Ulimits, ulimit{Type: u.Name, Hard: u.Hard, Soft: u.Soft})
	}
	for _, m := range spec.Mounts {
		if m.Type == containers.Volume {
			c.Volumes = append(c.Volumes, volume{Name: m.Source, Dest: m.Target, Options: access(m)})
		} else {
			c.Mounts = append(c.Mounts, toMount(m))
		}
	}
	return c, nil
}

func access(m containers.Mount) []string {
	if m.ReadOnly {
		return []string{"ro"}
	}
	return []string{"rw"}
}

func toMount(m containers.Mount) specs.Mount {
	out := specs.Mount{Type: m.Type, Source: m.Source, Destination: m.Target, Options: access(m)}
	if m.Type == containers.Bind {
		out.Options = append(out.Options, "rbind")
		if m.Propagation != "" {
			out.Options = append(out.Options, m.Propagation)
		}
		return out
	}
	out.Source = containers.Tmpfs
	if m.Size != 0 {
		out.Options = append(out.Options, "size="+strconv.FormatInt(m.Size, 10))
	}
	if m.Mode != "" {
		out.Options = append(out.Options, "mode="+m.Mode)
	}
	// Docker's are empty.
	out.Options = append(out.Options, "notmpcopyup")
	return out
}

// resources are the limits of a container's cgroup, as the OCI's specification names them.
func resources(d containers.Dimensions) map[string]any {
	if d.MemswapLimit == -1 {
		d.MemswapLimit = unlimited
	}
	memory, cpu := map[string]any{}, map[string]any{}
	all := map[string]any{
		"pids":   map[string]any{"limit": -1}, // Podman would allow 2048, too few for QEMU's threads
		"memory": memory,
		"cpu":    cpu,
	}
	for _, n := range []struct {
		in    map[string]any
		key   string
		value int64
	}{
		{memory, "limit", d.MemLimit}, {memory, "reservation", d.MemReservation}, {memory, "swap", d.MemswapLimit},
		{cpu, "period", d.CPUPeriod}, {cpu, "quota", d.CPUQuota}, {cpu, "shares", d.CPUShares},
	} {
		if n.value != 0 {
			n.in[n.key] = n.value
		}
	}
	if d.CpusetCpus != "" {
		cpu["cpus"] = d.CpusetCpus
	}
	if d.CpusetMems != "" {
		cpu["mems"] = d.CpusetMems
	}
	if d.BlkioWeight != 0 {
		all["blockIO"] = map[string]any{"weight": d.BlkioWeight}
	}
	return all
}

// unlimited is how much memory and swap may be used without a limit: Podman refuses -1 as less than
// the limit of memory (pkg/specgen/generate/validate_linux.go).
const unlimited = math.MaxInt64

// dockersCaps are the capabilities that Docker and containerd give by default and Podman does not.
var dockersCaps = []string{"AUDIT_WRITE", "MKNOD", "NET_RAW"}

// capAdd returns the capabilities to add so that a container has the same on every engine.
func capAdd(spec containers.Spec) []string {
	add := slices.Clone(spec.CapAdd)
	for _, c := range dockersCaps {
		dropped := slices.Contains(spec.CapDrop, c) || slices.Contains(spec.CapDrop, "ALL")
		if !spec.Privileged && !dropped && !slices.Contains(add, c) {
			add = append(add, c)
		}
	}
	return add
}

// signalNumber returns the number of a signal: SIGINT, INT, 2, SIGRTMIN+3.
func signalNumber(name string) (int, error) {
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	name = "SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG")
	if n := unix.SignalNum(name); n != 0 {
		return int(n), nil
	}
	const rtMin, rtMax = 34, 64 // of the C library, see signal(7)
	for prefix, from := range map[string]int{"SIGRTMIN": rtMin, "SIGRTMAX": rtMax} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if offset, err := strconv.Atoi(rest); err == nil || rest == "" {
				return from + offset, nil
			}
		}
	}
	return 0, fmt.Errorf("stop_signal %q is not the name of a signal", name)
}
