package docker

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/kollet/kollet/containers"
)

// volumeLabel marks volumes that kollet created.
const volumeLabel = "org.kollet.volume"

// logDriver rotates log files by size; it is Docker's default.
const logDriver = "json-file"

// toDocker converts a canonical spec for the engine's API. What the spec leaves to
// the image or the engine, the result does too.
func toDocker(spec containers.Spec, cgroupV2 bool) (*container.Config, *container.HostConfig) {
	labels := map[string]string{explicitLabel: explicitIn(spec).label()}
	maps.Copy(labels, spec.Labels)
	config := &container.Config{
		Image:      spec.Image,
		Labels:     labels,
		Entrypoint: spec.Entrypoint,
		Cmd:        spec.Command,
		WorkingDir: spec.WorkingDir,
		User:       spec.User,
		StopSignal: spec.StopSignal,

		Healthcheck: toHealthcheck(spec.Healthcheck),
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Env)) {
		config.Env = append(config.Env, key+"="+spec.Env[key])
	}
	host := &container.HostConfig{
		Privileged:     spec.Privileged,
		PidMode:        container.PidMode(spec.PID),
		IpcMode:        container.IpcMode(spec.IPC),
		NetworkMode:    container.NetworkMode(spec.NetworkMode),
		CgroupnsMode:   container.CgroupnsMode(spec.Cgroup),
		ReadonlyRootfs: spec.ReadOnly,
		CapAdd:         spec.CapAdd,
		CapDrop:        spec.CapDrop,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyMode(spec.Restart)},
		LogConfig:      logConfig(spec),
		Resources:      toResources(spec.Dimensions),
		SecurityOpt:    toSecurityOpt(spec.Security),
	}
	if spec.Cgroup == "" && cgroupV2 {
		host.CgroupnsMode = container.CgroupnsModePrivate // regardless of the engine's default
	}
	for _, d := range spec.Devices {
		host.Devices = append(host.Devices, container.DeviceMapping{PathOnHost: d, PathInContainer: d, CgroupPermissions: devicePermissions})
	}
	for _, u := range spec.Ulimits {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	for _, m := range spec.Mounts {
		if isVolatile(m) {
			host.Binds = append(host.Binds, toBind(m))
		} else {
			host.Mounts = append(host.Mounts, toMount(m))
		}
	}
	return config, host
}

// devicePermissions are those of `docker run --device`.
const devicePermissions = "rwm"

// isVolatile reports whether a mount is one of a directory below /run, which a reboot removes. Its
// container could not be started again after that, so the engine has to make the directory.
func isVolatile(m containers.Mount) bool {
	if m.Type != containers.Bind || !strings.HasPrefix(m.Source, "/run/") && !strings.HasPrefix(m.Source, "/var/run/") {
		return false
	}
	st, err := os.Stat(m.Source)
	return err == nil && st.IsDir() && !strings.Contains(m.Source+m.Target, ":")
}

// toBind converts for the API's Binds, whose sources the engine makes, as directories, at each start
// at which they are missing.
func toBind(m containers.Mount) string {
	bind := m.Source + ":" + m.Target
	var options []string
	if m.ReadOnly {
		options = append(options, "ro")
	}
	if m.Propagation != "" {
		options = append(options, m.Propagation)
	}
	if len(options) > 0 {
		bind += ":" + strings.Join(options, ",")
	}
	return bind
}

// toMount converts for the API's Mounts, not Binds: what is missing was mistyped, or is not mounted
// yet, and a directory in its place would hide that.
func toMount(m containers.Mount) mount.Mount {
	out := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	switch m.Type {
	case containers.Bind:
		if m.Propagation != "" {
			out.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(m.Propagation)}
		}
	case containers.Tmpfs:
		if mode, err := strconv.ParseUint(m.Mode, 8, 32); err == nil || m.Size != 0 {
			out.TmpfsOptions = &mount.TmpfsOptions{SizeBytes: m.Size, Mode: os.FileMode(mode)}
		}
	case containers.Volume:
		out.VolumeOptions = &mount.VolumeOptions{Labels: map[string]string{volumeLabel: "true"}}
	}
	return out
}

func logConfig(spec containers.Spec) container.LogConfig {
	if spec.LogSize == 0 {
		return container.LogConfig{}
	}
	config := map[string]string{"max-size": strconv.FormatInt(spec.LogSize, 10)}
	if spec.LogFiles > 0 {
		config["max-file"] = strconv.Itoa(spec.LogFiles)
	}
	return container.LogConfig{Type: logDriver, Config: config}
}
