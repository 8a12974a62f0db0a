package docker

import (
	"maps"
	"slices"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/kollet/kollet/containers"
)

// volumeLabel marks the volumes that kollet made.
const volumeLabel = "org.kollet.volume"

// logDriver is the one that rotates by size, and Docker's own default.
const logDriver = "json-file"

// toDocker puts a canonical spec in the engine's words. Where the spec leaves
// something to the image or the engine, so does the result.
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
	}
	for _, key := range slices.Sorted(maps.Keys(spec.Env)) {
		config.Env = append(config.Env, key+"="+spec.Env[key])
	}
	host := &container.HostConfig{
		Privileged:     spec.Privileged,
		PidMode:        container.PidMode(spec.PID),
		IpcMode:        container.IpcMode(spec.IPC),
		NetworkMode:    container.NetworkMode(spec.Network),
		CgroupnsMode:   container.CgroupnsMode(spec.CgroupNS),
		ReadonlyRootfs: spec.ReadOnly,
		CapAdd:         spec.CapAdd,
		CapDrop:        spec.CapDrop,
		RestartPolicy:  container.RestartPolicy{Name: container.RestartPolicyMode(spec.Restart)},
		LogConfig:      logConfig(spec),
	}
	if spec.CgroupNS == "" && cgroupV2 {
		host.CgroupnsMode = container.CgroupnsModePrivate // whatever the engine's own default is
	}
	for _, d := range spec.Devices {
		host.Devices = append(host.Devices, container.DeviceMapping{PathOnHost: d, PathInContainer: d, CgroupPermissions: devicePermissions})
	}
	for _, u := range spec.Ulimits {
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: u.Name, Soft: u.Soft, Hard: u.Hard})
	}
	for _, m := range spec.Mounts {
		host.Mounts = append(host.Mounts, toMount(m))
	}
	return config, host
}

// devicePermissions are those that docker run --device gives.
const devicePermissions = "rwm"

// toMount uses the engine's Mounts, not its Binds: Binds create a directory
// where a source is missing, Mounts fail.
func toMount(m containers.Mount) mount.Mount {
	out := mount.Mount{Type: mount.Type(m.Type), Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly}
	switch m.Type {
	case containers.Bind:
		if m.Propagation != "" {
			out.BindOptions = &mount.BindOptions{Propagation: mount.Propagation(m.Propagation)}
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
