package podman

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/kollet/kollet/containers"
)

// spec returns a container's spec: the one in its label, with everything that can have been
// changed since, and everything that Podman returns as it was set, as Podman has it now. Without
// a label, kollet did not create the container.
func (c inspected) spec(image containers.Image) containers.Spec {
	created, known := c.created()
	spec := created
	if !known {
		spec = c.foreign(image)
	}
	spec.Name = c.Name
	spec.Restart = c.policy()
	spec.Image = c.ImageName
	spec.Env = c.env(created.Env, containers.Environment(image.Env))
	spec.Labels = c.labels(created.Labels, known)
	spec.Privileged, spec.ReadOnly = c.HostConfig.Privileged, c.HostConfig.ReadonlyRootfs
	spec.PID = hostOnly(c.HostConfig.PidMode)
	spec.IPC = hostOnly(c.HostConfig.IpcMode)
	spec.NetworkMode = except(c.HostConfig.NetworkMode, "bridge", "default")
	spec.Dimensions = c.HostConfig.dimensions(created.Dimensions)
	spec.Ulimits = c.HostConfig.ulimits(created.Ulimits)
	return spec.Canonical()
}

// created returns the spec in a container's label.
func (c inspected) created() (spec containers.Spec, known bool) {
	text, known := c.Config.Labels[specLabel]
	if !known || json.Unmarshal([]byte(text), &spec) != nil {
		return containers.Spec{}, false
	}
	return spec, true
}

// foreign returns what Podman reports of a container that kollet did not create.
func (c inspected) foreign(image containers.Image) containers.Spec {
	spec := containers.Spec{CapAdd: c.HostConfig.CapAdd, CapDrop: c.HostConfig.CapDrop}
	for _, s := range []struct {
		into       *string
		has, image string
	}{
		{&spec.WorkingDir, c.Config.WorkingDir, image.WorkingDir},
		{&spec.User, c.Config.User, image.User},
		{&spec.StopSignal, c.Config.StopSignal, image.StopSignal},
	} {
		if s.has != s.image {
			*s.into = s.has
		}
	}
	if !slices.Equal(c.Config.Entrypoint, image.Entrypoint) {
		spec.Entrypoint = c.Config.Entrypoint
	}
	if !slices.Equal(c.Config.Cmd, image.Command) {
		spec.Command = c.Config.Cmd
	}
	for _, d := range c.HostConfig.Devices {
		spec.Devices = append(spec.Devices, d.PathOnHost)
	}
	for _, m := range c.Mounts {
		source := m.Source
		if m.Type == containers.Volume {
			source = m.Name
		}
		spec.Mounts = append(spec.Mounts, containers.Mount{Type: m.Type, Source: source, Target: m.Destination, ReadOnly: !m.RW, Propagation: m.Propagation})
	}
	return spec
}

// added are variables that Podman sets in every container.
var added = []string{"container", "HOSTNAME", "HOME", "TERM", "PATH"}

// env returns the variables that are set, or were set and have another value now. `podman
// update` can change them.
func (c inspected) env(created, image map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range containers.Environment(c.Config.Env) {
		_, set := created[key]
		ofImage, inherited := image[key]
		if set || !(inherited && ofImage == value || !inherited && slices.Contains(added, key)) {
			out[key] = value
		}
	}
	return out
}

// labels returns the labels that are set. Those of the image are among Podman's.
func (c inspected) labels(created map[string]string, known bool) map[string]string {
	out := map[string]string{}
	for key, value := range c.Config.Labels {
		if _, set := created[key]; set || !known {
			out[key] = value
		}
	}
	return out
}

// dimensions returns the limits of a container's cgroup, which `podman update` can change. If
// only memory is limited, Podman limits memory and swap to twice as much.
func (h hostConfig) dimensions(created containers.Dimensions) containers.Dimensions {
	d := containers.Dimensions{
		MemLimit: h.Memory, MemReservation: h.MemoryReservation, MemswapLimit: h.MemorySwap,
		CPUPeriod: h.CPUPeriod, CPUQuota: h.CPUQuota, CPUShares: h.CPUShares,
		CpusetCpus: h.CpusetCpus, CpusetMems: h.CpusetMems, BlkioWeight: h.BlkioWeight,
	}
	if d.MemswapLimit == unlimited {
		d.MemswapLimit = -1
	}
	if created.MemswapLimit == 0 && (d.MemswapLimit == 2*d.MemLimit || d.MemswapLimit == -1) {
		d.MemswapLimit = 0
	}
	return d
}

// defaults are limits that Podman sets in every container.
var defaults = []string{"nofile", "nproc"}

func (h hostConfig) ulimits(created []containers.Ulimit) []containers.Ulimit {
	var out []containers.Ulimit
	for _, u := range h.Ulimits {
		name := strings.ToLower(strings.TrimPrefix(u.Name, "RLIMIT_"))
		set := slices.ContainsFunc(created, func(c containers.Ulimit) bool { return c.Name == name })
		if set || !slices.Contains(defaults, name) {
			out = append(out, containers.Ulimit{Name: name, Soft: u.Soft, Hard: u.Hard})
		}
	}
	return out
}

// hostOnly returns "host", or nothing for a namespace of the container's own.
func hostOnly(mode string) string { return except(mode, "private", "shareable", "none") }

// except returns a mode, or nothing if it is one of those that mean the default.
func except(mode string, defaults ...string) string {
	if slices.Contains(defaults, mode) {
		return ""
	}
	return mode
}
