package docker

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"

	"github.com/kollet/kollet/containers"
)

// extra returns the settings of a container that a spec cannot have, by the names that the docker
// command has for them. info is asked for only if a default of the engine matters.
func (e *Engine) extra(ctx context.Context, c container.InspectResponse) ([]string, error) {
	config, host := c.Config, c.HostConfig
	var found []string
	for name, set := range map[string]bool{
		"hostname":              config.Hostname != "" && !ownName(c.ID, config.Hostname),
		"domainname":            config.Domainname != "",
		"tty":                   config.Tty,
		"interactive":           config.OpenStdin,
		"stop-timeout":          config.StopTimeout != nil,
		"mac-address":           config.MacAddress != "", //nolint:staticcheck // where Docker 20.10 has it
		"health-start-interval": config.Healthcheck != nil && config.Healthcheck.StartInterval > 0,

		containers.AutoRemove: host.AutoRemove,
		"dns":                 len(host.DNS)+len(host.DNSOptions)+len(host.DNSSearch) > 0,
		"add-host":            len(host.ExtraHosts) > 0,
		"link":                len(host.Links) > 0,
		"publish":             len(host.PortBindings) > 0 || host.PublishAllPorts,
		"group-add":           len(host.GroupAdd) > 0,
		"uts":                 host.UTSMode != "",
		"userns":              host.UsernsMode != "",
		"shm-size":            host.ShmSize != 0 && host.ShmSize != defaultShm,
		"init":                host.Init != nil && *host.Init,
		"sysctl":              len(host.Sysctls) > 0,
		"storage-opt":         len(host.StorageOpt) > 0,
		"annotation":          len(host.Annotations) > 0,
		"oom-score-adj":       host.OomScoreAdj != 0,
		"security-opt":        otherSecurity(host),

		"cgroup-parent":       host.CgroupParent != "",
		"pids-limit":          host.PidsLimit != nil && *host.PidsLimit > 0,
		"oom-kill-disable":    host.OomKillDisable != nil && *host.OomKillDisable,
		"memory-swappiness":   host.MemorySwappiness != nil && *host.MemorySwappiness >= 0,
		"kernel-memory":       host.KernelMemory > 0,
		"cpu-rt-runtime":      host.CPURealtimePeriod != 0 || host.CPURealtimeRuntime != 0,
		"device-cgroup-rule":  len(host.DeviceCgroupRules) > 0,
		"gpus":                len(host.DeviceRequests) > 0,
		"blkio-weight-device": len(host.BlkioWeightDevice) > 0,
		"device-read-bps":     len(host.BlkioDeviceReadBps) > 0,
		"device-write-bps":    len(host.BlkioDeviceWriteBps) > 0,
		"device-read-iops":    len(host.BlkioDeviceReadIOps) > 0,
		"device-write-iops":   len(host.BlkioDeviceWriteIOps) > 0,
	} {
		if set {
			found = append(found, name)
		}
	}
	for option := range host.LogConfig.Config {
		if option != "max-size" && option != "max-file" { // nothing tells what the engine's default is
			found = append(found, "log-opt "+option+", unless Docker has it by default")
		}
	}
	found = append(found, extraMounts(c)...)
	others, err := e.notDefault(ctx, host)
	found = append(found, others...)
	slices.Sort(found)
	return found, err
}

// defaultShm is how large /dev/shm is unless a container says otherwise (moby: daemon/config).
const defaultShm = 64 << 20

// ownName reports whether a container has the name that Docker gives it: the machine's in the host's
// network, else the beginning of its id.
func ownName(id, name string) bool {
	machine, err := os.Hostname()
	return err == nil && name == machine || strings.HasPrefix(id, name)
}

// otherSecurity reports whether a container has security options that are neither read back nor
// made by Docker: it disables the labels of containers with the host's namespaces.
func otherSecurity(host *container.HostConfig) bool {
	if !host.Privileged && host.MaskedPaths != nil && len(host.MaskedPaths) == 0 {
		return true // systempaths=unconfined
	}
	unlabelled := host.Privileged || host.PidMode.IsHost() || host.IpcMode.IsHost()
	return slices.ContainsFunc(host.SecurityOpt, func(opt string) bool {
		switch key, value, _ := strings.Cut(strings.Replace(opt, ":", "=", 1), "="); key {
		case "no-new-privileges", "apparmor", "seccomp":
			return false
		case "label":
			return value != "disable" || !unlabelled
		}
		return true
	})
}

// extraMounts names mounts that cannot be made again as they are.
func extraMounts(c container.InspectResponse) []string {
	var found []string
	for _, m := range c.HostConfig.Mounts {
		bind, volume, tmpfs := m.BindOptions, m.VolumeOptions, m.TmpfsOptions
		if bind != nil && (bind.NonRecursive || bind.ReadOnlyNonRecursive) || volume != nil && volume.Subpath != "" || tmpfs != nil && len(tmpfs.Options) > 0 {
			found = append(found, "options of the mount at "+m.Target)
		}
	}
	for target, options := range c.HostConfig.Tmpfs {
		for option := range strings.SplitSeq(options, ",") {
			key, value, _ := strings.Cut(option, "=")
			if _, err := units.RAMInBytes(value); key == "size" && err != nil || !slices.Contains([]string{"", "rw", "ro", "size", "mode", "noexec", "nosuid", "nodev"}, key) {
				found = append(found, option+" of the tmpfs at "+target)
			}
		}
	}
	return found
}

// notDefault names what differs from the engine's own default.
func (e *Engine) notDefault(ctx context.Context, host *container.HostConfig) ([]string, error) {
	driver, runtime := host.LogConfig.Type, host.Runtime
	usual := func(name string, names ...string) bool { return name == "" || slices.Contains(names, name) }
	if usual(driver, logDriver) && usual(runtime, "runc", "io.containerd.runc.v2") {
		return nil, nil
	}
	info, err := e.client.Info(ctx)
	if err != nil {
		return nil, e.fail("asking docker for its defaults", err)
	}
	return otherDefaults(host, info), nil
}

func otherDefaults(host *container.HostConfig, info system.Info) []string {
	var found []string
	if driver := host.LogConfig.Type; driver != "" && driver != info.LoggingDriver {
		found = append(found, "log-driver "+driver)
	}
	if runtime := host.Runtime; runtime != "" && runtime != info.DefaultRuntime {
		found = append(found, "runtime "+runtime)
	}
	return found
}
