package docker

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"github.com/kollet/kollet/containers"
)

// fromDocker returns a container's spec. image is the configuration of its image,
// nil if the image was removed.
func fromDocker(c container.InspectResponse, image *imageConfig) containers.Spec {
	set := readExplicit(c.Config.Labels)
	if image != nil && image.labels[explicitLabel] == c.Config.Labels[explicitLabel] {
		set = nil // kollet did not write it: anyone can build an image with it
	}
	if image == nil {
		image = &imageConfig{}
		if set != nil { // without the label, every setting counts as the container's own
			image = assumeImage(c.Config, set)
		}
	}
	host := c.HostConfig
	spec := containers.Spec{
		Name:       strings.TrimPrefix(c.Name, "/"),
		Image:      c.Config.Image,
		WorkingDir: own(set, "working_dir", c.Config.WorkingDir, image.dir),
		User:       own(set, "user", c.Config.User, image.user),
		StopSignal: own(set, "stop_signal", c.Config.StopSignal, image.signal),
		Env:        ownPairs(set, "env ", containers.Environment(c.Config.Env), containers.Environment(image.env)),
		Labels:     ownPairs(set, "label ", c.Config.Labels, image.labels),

		Privileged:  host.Privileged,
		PID:         string(host.PidMode),
		NetworkMode: except(string(host.NetworkMode), "default", "bridge"),
		IPC:         except(string(host.IpcMode), "private", "shareable"),
		ReadOnly:    host.ReadonlyRootfs,
		CapAdd:      host.CapAdd,
		CapDrop:     host.CapDrop,
		Devices:     devices(host.Devices),
		Mounts:      mounts(c),
		Dimensions:  fromResources(host.Resources, set["memswap_limit"] || set == nil && hasFreeSwap(host.Resources)),
		Security:    fromSecurityOpt(host.SecurityOpt),
		Restart:     fromPolicy(host.RestartPolicy),
		Healthcheck: fromHealthcheck(c.Config.Healthcheck, image, set),
	}
	delete(spec.Labels, explicitLabel)
	if set["entrypoint"] || !slices.Equal(c.Config.Entrypoint, image.entrypoint) {
		spec.Entrypoint = c.Config.Entrypoint
	}
	if set["command"] || !slices.Equal(c.Config.Cmd, image.command) {
		spec.Command = c.Config.Cmd // none if only the entrypoint is set
	}
	if set == nil || set["cgroup"] {
		spec.Cgroup = except(string(host.CgroupnsMode), "private")
	}
	for _, u := range host.Ulimits {
		if set == nil || set["ulimit "+u.Name] { // 20.10 adds the engine's default limits to the container
			spec.Ulimits = append(spec.Ulimits, containers.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
		}
	}
	if set == nil || set["log"] {
		spec.LogSize, spec.LogFiles = logLimits(host.LogConfig)
	}
	return spec.Canonical()
}

// own returns a value unless the image declares the same and the spec does not.
func own(set explicit, field, value, image string) string {
	if value == image && !set[field] {
		return ""
	}
	return value
}

// ownPairs is own for mappings.
func ownPairs(set explicit, prefix string, values, image map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range values {
		if declared, ok := image[key]; set[prefix+key] || !ok || declared != value {
			out[key] = value
		}
	}
	return out
}

// assumeImage returns what a container's spec does not set as the image's.
func assumeImage(c *container.Config, set explicit) *imageConfig {
	image := &imageConfig{env: c.Env, labels: maps.Clone(c.Labels), user: c.User, dir: c.WorkingDir, signal: c.StopSignal}
	if !set["engine_healthcheck"] {
		image.healthcheck = c.Healthcheck
	}
	if !set["entrypoint"] {
		image.entrypoint = c.Entrypoint
	}
	if !set["command"] {
		image.command = c.Cmd
	}
	return image
}

// except returns a mode, or nothing if it is one of those that mean the default.
func except(mode string, defaults ...string) string {
	if slices.Contains(defaults, mode) {
		return ""
	}
	return mode
}

// devices returns paths. A device that kollet would not have created has the form
// of the docker command, so that it is reported as a change.
func devices(in []container.DeviceMapping) []string {
	var out []string
	for _, d := range in {
		text := d.PathOnHost
		if d.PathInContainer != d.PathOnHost || d.CgroupPermissions != devicePermissions {
			text += ":" + d.PathInContainer + ":" + d.CgroupPermissions
		}
		out = append(out, text)
	}
	return out
}

// mounts returns the mounts that were requested: HostConfig.Mounts, and the Binds
// and Tmpfs of a container that kollet did not create, but not the volumes that an
// image declares, which have random names.
func mounts(c container.InspectResponse) []containers.Mount {
	var out []containers.Mount
	seen := map[string]bool{}
	for _, m := range c.HostConfig.Mounts {
		seen[path.Clean(m.Target)] = true
		out = append(out, fromMount(m))
	}
	for target, options := range c.HostConfig.Tmpfs {
		seen[path.Clean(target)] = true
		out = append(out, fromTmpfs(target, options))
	}
	for _, m := range c.Mounts {
		if seen[path.Clean(m.Destination)] || isAnonymous(m) {
			continue
		}
		source := m.Source
		if m.Type == mount.TypeVolume {
			source = m.Name
		}
		out = append(out, containers.Mount{Type: string(m.Type), Source: source, Target: m.Destination,
			ReadOnly: !m.RW, Propagation: string(m.Propagation)})
	}
	return out
}

// anonymous returns where a container has volumes with random names.
func anonymous(c container.InspectResponse) []string {
	var targets []string
	for _, m := range c.Mounts {
		if isAnonymous(m) {
			targets = append(targets, m.Destination)
		}
	}
	slices.Sort(targets)
	return targets
}

func fromMount(m mount.Mount) containers.Mount {
	out := containers.Mount{Type: string(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	if m.BindOptions != nil {
		out.Propagation = string(m.BindOptions.Propagation)
	}
	if o := m.TmpfsOptions; o != nil {
		out.Size = o.SizeBytes
		if o.Mode != 0 {
			out.Mode = fmt.Sprintf("%04o", uint32(o.Mode))
		}
	}
	return out
}

// fromTmpfs returns a tmpfs of `docker run --tmpfs`, with its options. Those that
// kollet would not set are left out.
func fromTmpfs(target, options string) containers.Mount {
	m := containers.Mount{Type: containers.Tmpfs, Target: target}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "ro":
			m.ReadOnly = true
		case "size":
			if size, err := units.RAMInBytes(value); err == nil {
				m.Size = size
			}
		case "mode":
			if mode, err := strconv.ParseUint(value, 8, 32); err == nil {
				m.Mode = fmt.Sprintf("%04o", mode)
			}
		}
	}
	return m
}

func isAnonymous(m container.MountPoint) bool {
	return m.Type == mount.TypeVolume && len(m.Name) == 64 && strings.Trim(m.Name, "0123456789abcdef") == ""
}

// logLimits parses sizes as the engine does ("10m"). A value that cannot be parsed
// was not set by kollet, and neither was that of the only other driver with such limits.
func logLimits(c container.LogConfig) (size int64, files int) {
	if c.Type == "local" {
		return 0, 0
	}
	size, err := units.RAMInBytes(c.Config["max-size"])
	if err != nil {
		return 0, 0
	}
	count, err := units.FromHumanSize(c.Config["max-file"])
	if err != nil {
		return size, 0
	}
	return size, int(count)
}
