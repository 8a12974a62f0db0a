package adopt

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/kollet/kollet/agent/gate"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/agent/nodefile"
	"github.com/kollet/kollet/containers"
)

// translated is a container as a service of a node file.
type translated struct {
	name, container  string
	service          nodefile.Service
	blocked, differs []Finding
}

func (t *translated) block(text, remedy string) {
	t.blocked = append(t.blocked, Finding{Container: t.container, Text: text, Remedy: remedy})
}

// cannotSay blocks as long as nobody has written another node file.
func (t *translated) cannotSay(text, remedy string) {
	if remedy != "" {
		remedy += ", or "
	}
	t.blocked = append(t.blocked, Finding{Container: t.container, Text: text, Remedy: remedy + ownFile, unwritten: true})
}

func (t *translated) differ(format string, args ...any) {
	t.differs = append(t.differs, Finding{Container: t.container, Text: fmt.Sprintf(format, args...)})
}

// general is what differs for every container.
var general = []Finding{
	{Text: "containers have the names of their services, such as nova-compute instead of nova_compute"},
	{Text: "the configuration is copied once into each new container, not at each start: after a change in /etc/kolla, run `kollet upgrade`"},
	{Text: "Docker starts the services again, not systemd"},
}

func translate(f found) translated {
	spec := f.container.Spec
	t := translated{name: ServiceName(spec.Name), container: spec.Name}
	t.state(f)
	t.image(f)
	t.start(f)
	t.confinement(spec)
	t.limits(spec)
	t.environment(spec)
	t.mounts(spec.Mounts)
	t.health(spec.Healthcheck)
	t.restart(spec)
	t.extra(f.container)
	if f.dir != "" && f.err == nil {
		t.contract(f.config, f.path)
		t.lost(f)
		t.changed(f)
	}
	return t
}

// state: of a container that does not run nobody knows whether it would, and of one that is not well
// whether its successor is.
func (t *translated) state(f found) {
	repair := "repair it first, or leave it with --exclude " + t.container
	switch c := f.container; {
	case c.State != containers.StateRunning:
		t.block("it does not run: it is "+c.Condition(), repair)
	case f.restarts != nil:
		t.block("it exits repeatedly: "+f.restarts.Error(), repair)
	case c.Unhealthy:
		t.block("it is unhealthy", "`docker inspect --format '{{json .State.Health}}' "+t.container+"` says why; "+repair)
	}
}

// image keeps the name of the image as kolla-ansible gave it, so that the next tag is a new
// image. If the name means another image by now, the one that runs is named by its digest.
func (t *translated) image(f found) {
	ref := f.container.Spec.Image
	switch {
	case f.image.ID != "" && f.tag.ID == f.image.ID && !strings.HasPrefix(ref, "sha256:"):
		t.service.Image = tagged(ref)
	case f.image.Digest != "":
		t.service.Image = f.image.Digest
		if f.tag.ID != f.image.ID {
			t.differ("its image is named by its digest: %s is another image by now, or none", ref)
		}
	default:
		t.service.Image = ref
		t.block("its image has no name: "+ref+" now names another image, or none", fmt.Sprintf("give it one with `docker tag %.19s NAME:TAG`, and have kolla-ansible create the container from it", f.container.ImageID))
	}
}

// tagged adds the tag that engines assume.
func tagged(ref string) string {
	if named, err := reference.ParseNormalizedNamed(ref); err == nil && reference.IsNameOnly(named) {
		return ref + ":latest"
	}
	return ref
}

// start: the program is that of its description, which Kolla's start script executes.
func (t *translated) start(f found) {
	spec := f.container.Spec
	switch {
	case f.image.ID != "" && !slices.Equal(f.image.Command, []string{node.KollaStart}):
		t.cannotSay(fmt.Sprintf("its image starts %q, not %s", strings.Join(f.image.Command, " "), node.KollaStart), "")
	case len(spec.Entrypoint) > 0 || len(spec.Command) > 0:
		t.cannotSay(fmt.Sprintf("it was created with a command of its own, %q", strings.Join(slices.Concat(spec.Entrypoint, spec.Command), " ")), "")
	case f.dir == "":
		t.cannotSay("nothing is mounted at "+gate.Config, "")
	case f.err != nil:
		t.cannotSay(f.err.Error(), "run `kolla-ansible genconfig`")
	}
}

func (t *translated) confinement(spec containers.Spec) {
	s := &t.service
	s.User, s.WorkingDir, s.StopSignal = spec.User, spec.WorkingDir, spec.StopSignal
	s.Privileged, s.ReadOnly = spec.Privileged, spec.ReadOnly
	s.PID, s.IPC, s.Cgroup = spec.PID, spec.IPC, spec.Cgroup
	switch spec.NetworkMode {
	case "host": // the default
	case "":
		s.NetworkMode = "private"
	default:
		s.NetworkMode = spec.NetworkMode
	}
	s.CapAdd, s.CapDrop, s.Devices = spec.CapAdd, spec.CapDrop, spec.Devices
	for _, d := range spec.Devices {
		if strings.Contains(d, ":") {
			t.cannotSay("it has the device "+d+", which a node file cannot express", "")
		}
	}
	if spec.Security.NoNewPrivileges {
		s.SecurityOpt = append(s.SecurityOpt, "no-new-privileges")
	}
	if spec.Security.AppArmor != "" {
		s.SecurityOpt = append(s.SecurityOpt, "apparmor="+spec.Security.AppArmor)
	}
	switch spec.Security.Seccomp {
	case "":
	case containers.Unconfined:
		s.SecurityOpt = append(s.SecurityOpt, "seccomp="+containers.Unconfined)
	default:
		t.cannotSay("it has a seccomp profile, of which Docker does not tell the file", "")
	}
	labels := slices.DeleteFunc(slices.Sorted(maps.Keys(spec.Labels)), func(l string) bool {
		return l == node.LabelNode || l == node.LabelService || l == node.LabelGeneration // see node.Recognising
	})
	if len(labels) > 0 {
		t.differ("it loses the labels %s", strings.Join(labels, ", "))
	}
}

func (t *translated) limits(spec containers.Spec) {
	for _, u := range spec.Ulimits {
		t.service.Ulimits = append(t.service.Ulimits, nodefile.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	d := spec.Dimensions
	t.service.Dimensions = nodefile.Dimensions{
		MemLimit: bytes(d.MemLimit), MemReservation: bytes(d.MemReservation), MemswapLimit: bytes(d.MemswapLimit),
		CPUPeriod: d.CPUPeriod, CPUQuota: d.CPUQuota, CPUShares: d.CPUShares,
		CpusetCpus: d.CpusetCpus, CpusetMems: d.CpusetMems, BlkioWeight: d.BlkioWeight,
	}
	t.service.LogSize, t.service.LogFiles = bytes(spec.LogSize), spec.LogFiles
}

// bytes writes a size in the largest unit that leaves no rest.
func bytes(n int64) string {
	if n == 0 {
		return ""
	}
	for _, unit := range []struct {
		name string
		size int64
	}{{"g", 1 << 30}, {"m", 1 << 20}, {"k", 1 << 10}} {
		if n > 0 && n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// environment leaves out what kollet sets itself.
func (t *translated) environment(spec containers.Spec) {
	env := maps.Clone(spec.Env)
	delete(env, gate.Strategy)
	if env[node.ServiceVariable] == t.name {
		delete(env, node.ServiceVariable)
	}
	if env["KOLLA_NEUTRON_WRAPPERS"] == "true" {
		t.block("it starts containers of its own (KOLLA_NEUTRON_WRAPPERS), which would not survive it", "set neutron_agents_wrappers to no for kolla-ansible, and reconfigure it")
	}
	t.service.Environment = env
}

// mounts keeps volumes and binds. The config files are mounted by kollet.
func (t *translated) mounts(mounts []containers.Mount) {
	for _, m := range mounts {
		if node.IsConfigMount(m) {
			continue
		}
		switch m.Type {
		case containers.Bind, containers.Volume, containers.Tmpfs:
		default:
			t.cannotSay(fmt.Sprintf("it has a mount of the type %q at %s", m.Type, m.Target), "")
			continue
		}
		v := nodefile.Volume{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly, Propagation: m.Propagation, Size: bytes(m.Size), Mode: m.Mode}
		if m.Type != containers.Bind {
			v.Propagation = "" // Docker names one for volumes too
		}
		t.service.Volumes = append(t.service.Volumes, v)
	}
}

// Times of the probe that a health check of kolla-ansible becomes. kolla-ansible's own are
// those of a monitoring, and would prolong an upgrade.
const (
	probeInterval = time.Second
	probeStart    = 3 * time.Minute // nova-compute may take minutes on a busy node
)

// health makes a probe of a container's health check, and keeps it for those who look at
// docker ps.
func (t *translated) health(h containers.Healthcheck) {
	argv := h.Test
	switch {
	case len(argv) == 0 || argv[0] == "NONE":
		t.differ("it has no health check: an upgrade only sees that it runs; add healthcheck to the node file")
		return
	case argv[0] == "CMD-SHELL":
		argv = shell(strings.Join(argv[1:], " "))
	}
	t.service.Healthcheck = []nodefile.Probe{{Exec: argv, Interval: probeInterval, StartPeriod: probeStart, Timeout: h.Timeout}}
	t.service.EngineHealthcheck = nodefile.EngineHealthcheck{Test: argv, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries}
}

var plainWords = regexp.MustCompile(`^[a-zA-Z0-9 _.,:/@%+=-]+$`)

// shell returns a command for a shell as its words, if a shell would only split it.
func shell(command string) []string {
	if plainWords.MatchString(command) && !strings.Contains(strings.Fields(command + " x")[0], "=") {
		return strings.Fields(command)
	}
	return []string{"/bin/sh", "-c", command}
}

// extra is what containers of kollet cannot have. A volume without a name stays with the old
// container, and with it what the service has stored there.
func (t *translated) extra(c containers.Container) {
	if slices.Contains(c.Extra, containers.AutoRemove) {
		t.block("Docker removes it when it stops (--rm), so it could not run again", "leave it with --exclude "+t.container)
	}
	for _, target := range c.Anonymous {
		t.block("it has a volume without a name at "+target+", which a new container would not have", "leave it with --exclude "+t.container)
	}
	lost := slices.DeleteFunc(slices.Clone(c.Extra), func(setting string) bool { return setting == containers.AutoRemove })
	if len(lost) > 0 {
		t.differ("it loses these settings: %s", strings.Join(lost, ", "))
	}
}

func (t *translated) restart(spec containers.Spec) {
	switch spec.Restart {
	case containers.RestartUnlessStopped:
		t.service.Restart = string(spec.Restart)
	case containers.RestartAlways, containers.RestartNo, "": // systemd starts it again
	default:
		t.differ("it is always started again, not %s", spec.Restart)
	}
}
