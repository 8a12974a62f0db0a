package docker

import (
	"os"
	"slices"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
)

func TestExtra(t *testing.T) {
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	yes, limit := true, int64(100)
	for name, c := range map[string]struct {
		change func(*container.Config, *container.HostConfig)
		want   []string
	}{
		"nothing": {func(*container.Config, *container.HostConfig) {}, nil},
		"what Docker sets itself": {func(config *container.Config, host *container.HostConfig) {
			host.ShmSize, host.Privileged, host.SecurityOpt = 64<<20, true, []string{"label=disable"}
			host.LogConfig.Type, host.Runtime = "json-file", "runc"
			host.Tmpfs = map[string]string{"/tmp": "", "/run": "rw,noexec,nosuid,nodev,size=64m,mode=1777"}
			config.Hostname = machine
		}, nil},
		"its id is its name": {func(config *container.Config, _ *container.HostConfig) { config.Hostname = "0123456789ab" }, nil},
		"names": {func(config *container.Config, host *container.HostConfig) {
			config.Hostname, host.DNS, host.ExtraHosts = "other", []string{"192.0.2.1"}, []string{"a:192.0.2.2"}
		}, []string{"add-host", "dns", "hostname"}},
		"limits": {func(_ *container.Config, host *container.HostConfig) {
			host.PidsLimit, host.ShmSize, host.OomScoreAdj, host.MemorySwappiness = &limit, 1<<30, -500, &limit
		}, []string{"memory-swappiness", "oom-score-adj", "pids-limit", "shm-size"}},
		"how it runs": {func(config *container.Config, host *container.HostConfig) {
			config.Tty, host.Init, host.AutoRemove, host.GroupAdd = true, &yes, true, []string{"5"}
		}, []string{"group-add", "init", "rm", "tty"}},
		"labels of SELinux": {func(_ *container.Config, host *container.HostConfig) { host.SecurityOpt = []string{"label=disable"} }, []string{"security-opt"}},
		"log options": {func(_ *container.Config, host *container.HostConfig) {
			host.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "3", "tag": "x"}}
		}, []string{"log-opt tag, unless Docker has it by default"}},
		"paths": {func(_ *container.Config, host *container.HostConfig) { host.MaskedPaths = []string{} }, []string{"security-opt"}},
		"mounts": {func(_ *container.Config, host *container.HostConfig) {
			host.Mounts = []mount.Mount{{Target: "/a", VolumeOptions: &mount.VolumeOptions{Subpath: "b"}}, {Target: "/plain", VolumeOptions: &mount.VolumeOptions{}}}
			host.Tmpfs = map[string]string{"/t": "rw,uid=5,size=10%"}
		}, []string{"options of the mount at /a", "size=10% of the tmpfs at /t", "uid=5 of the tmpfs at /t"}},
	} {
		t.Run(name, func(t *testing.T) {
			config, host := &container.Config{}, &container.HostConfig{}
			c.change(config, host)
			got, err := (&Engine{}).extra(t.Context(), container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{ID: "0123456789abcdef", HostConfig: host}, Config: config})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q, %v, want %q", got, err, c.want)
			}
		})
	}
	host := &container.HostConfig{LogConfig: container.LogConfig{Type: "journald"}, Runtime: "crun"}
	if got := otherDefaults(host, system.Info{LoggingDriver: "json-file", DefaultRuntime: "runc"}); !slices.Equal(got, []string{"log-driver journald", "runtime crun"}) {
		t.Errorf("%q", got)
	}
	if got := otherDefaults(host, system.Info{LoggingDriver: "journald", DefaultRuntime: "crun"}); len(got) > 0 {
		t.Errorf("the engine's own: %q", got)
	}
}
