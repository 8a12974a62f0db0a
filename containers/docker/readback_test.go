package docker

import (
	"reflect"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/kollet/kollet/containers"
)

var testImage = &imageConfig{
	entrypoint: []string{"/init"}, command: []string{"serve"}, env: []string{"PATH=/bin", "BOTH=same"},
	labels: map[string]string{"by": "image"}, user: "nova", dir: "/work", signal: "SIGTERM",
}

// foreign is a container that was created with the docker command.
func foreign() container.InspectResponse {
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			Name: "/nova-compute",
			HostConfig: &container.HostConfig{
				Binds:         []string{"/run:/run:rshared", "data:/data"},
				Tmpfs:         map[string]string{"/tmp": "", "/small": "rw,size=64m,mode=755"},
				SecurityOpt:   []string{"label=disable", "no-new-privileges:true", "seccomp:unconfined", "apparmor=mine"},
				IpcMode:       "private",
				NetworkMode:   "default",
				CgroupnsMode:  "host",
				RestartPolicy: container.RestartPolicy{Name: "always"},
				LogConfig:     container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m", "max-file": "3"}},
				Resources: container.Resources{
					Devices: []container.DeviceMapping{{PathOnHost: "/dev/kvm", PathInContainer: "/dev/kvm", CgroupPermissions: "r"}},
					Ulimits: []*container.Ulimit{{Name: "nofile", Soft: 1, Hard: 2}},
				},
			},
		},
		Config: &container.Config{
			Image: "nova:26", Entrypoint: []string{"/init"}, Cmd: []string{"other"}, Env: []string{"PATH=/bin", "BOTH=same", "MORE=a=b"},
			Labels: map[string]string{"by": "image"}, User: "root", WorkingDir: "/work", StopSignal: "SIGTERM",
		},
		Mounts: []container.MountPoint{
			{Type: mount.TypeBind, Source: "/run", Destination: "/run", Mode: "rshared", RW: true, Propagation: "rshared"},
			{Type: mount.TypeVolume, Name: "data", Source: "/var/lib/docker/volumes/data/_data", Destination: "/data", RW: true},
			{Type: mount.TypeVolume, Name: "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", Destination: "/declared", RW: true},
			{Type: mount.TypeTmpfs, Destination: "/tmp", RW: true},
		},
	}
}

func TestForeignContainer(t *testing.T) {
	want := containers.Spec{
		Name: "nova-compute", Image: "nova:26", Command: []string{"other"}, User: "root",
		Env: map[string]string{"MORE": "a=b"}, Cgroup: "host", Restart: "always",
		LogSize: 10 << 20, LogFiles: 3,
		Security: containers.Security{NoNewPrivileges: true, Seccomp: "unconfined", AppArmor: "mine"},
		Devices:  []string{"/dev/kvm:/dev/kvm:r"},
		Ulimits:  []containers.Ulimit{{Name: "nofile", Soft: 1, Hard: 2}},
		Mounts: []containers.Mount{
			{Type: "volume", Source: "data", Target: "/data"},
			{Type: "bind", Source: "/run", Target: "/run", Propagation: "rshared"},
			{Type: "tmpfs", Target: "/small", Size: 64 << 20, Mode: "0755"},
			{Type: "tmpfs", Target: "/tmp"},
		},
	}
	if got := fromDocker(foreign(), testImage); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// What only looks like a default of the engine, or like a setting of kollet's.
func TestForeignLimits(t *testing.T) {
	c := foreign()
	c.HostConfig.LogConfig.Type = "local"
	c.HostConfig.Resources = container.Resources{Memory: 1 << 30, MemorySwap: -1}
	got := fromDocker(c, testImage)
	if got.LogSize != 0 || got.LogFiles != 0 || got.Dimensions.MemswapLimit != -1 {
		t.Errorf("%+v", got)
	}
}

// An image that says that its labels are the container's does not make them so.
func TestForgedLabels(t *testing.T) {
	labels := map[string]string{"org.kollet.node": "/var/lib/kollet", explicitLabel: `["label org.kollet.node"]`}
	c := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{Name: "/c", HostConfig: &container.HostConfig{}}, Config: &container.Config{Labels: labels}}
	if got := fromDocker(c, &imageConfig{labels: labels}).Labels; len(got) > 0 {
		t.Errorf("the container's own labels are %v", got)
	}
}

// What the engine adds to a container is not in its spec, even if its image was
// removed.
func TestEngineDefaultsAreLeftOut(t *testing.T) {
	full := containers.Spec{
		Name: "c", Image: "sha256:12", Entrypoint: []string{"/init"}, WorkingDir: "/work", User: "nova", StopSignal: "SIGTERM",
		Env: map[string]string{"BOTH": "same"}, Labels: map[string]string{"by": "image"},
		Cgroup: "host", LogSize: 1 << 20, Ulimits: []containers.Ulimit{{Name: "core"}},
	}
	for name, spec := range map[string]containers.Spec{"all set": full, "nothing set": {Name: "c", Image: "sha256:12"}} {
		spec = spec.Canonical()
		config, host := toDocker(spec, false)
		// As Docker 20.10 does on create and start.
		config.Env = append(config.Env, "PATH=/bin")
		if config.Entrypoint == nil {
			config.Entrypoint, config.Cmd = testImage.entrypoint, testImage.command
			config.Env = append(config.Env, "BOTH=same")
			config.User, config.WorkingDir, config.StopSignal = testImage.user, testImage.dir, testImage.signal
			config.Labels["by"] = "image"
			host.LogConfig = container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "10m"}}
		}
		host.CgroupnsMode, host.IpcMode, host.NetworkMode = "host", "shareable", "default"
		host.Ulimits = append(host.Ulimits, &container.Ulimit{Name: "nofile", Soft: 1, Hard: 1})
		c := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{Name: "/c", HostConfig: host}, Config: config}
		for where, image := range map[string]*imageConfig{"image present": testImage, "image gone": nil} {
			if got := fromDocker(c, image); !reflect.DeepEqual(got, spec) {
				t.Errorf("%s, %s: got\n%+v, want\n%+v", name, where, got, spec)
			}
		}
	}
}

func FuzzLabel(f *testing.F) {
	f.Add(`["env A","label b"]`)
	f.Add(``)
	f.Add(`{"a":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		a := readExplicit(map[string]string{explicitLabel: text})
		if again := readExplicit(map[string]string{explicitLabel: a.label()}); a != nil && !reflect.DeepEqual(a, again) {
			t.Errorf("%v became %v", a, again)
		}
	})
}
