package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/kollet/kollet/agent/generation"
	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/agent/node"
	"github.com/kollet/kollet/containers"
)

func TestMountOf(t *testing.T) {
	const info = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:20 / /run rw,nosuid - tmpfs run rw
31 30 0:21 / /run/lock rw shared:7 master:3 - tmpfs run rw
32 22 0:22 / /dev rw master:4 propagate_from:2 - devtmpfs dev rw
33 22 0:23 / /srv rw shared:8 - ext4 /dev/sdb rw
34 33 0:24 / /srv rw - ext4 /dev/sdc rw
35 22 0:25 / /with\040blank\134 rw shared:9 - ext4 shared:no rw
36 22 0:26 / /named rw - ext4 shared:1 rw
short
`
	for path, want := range map[string]string{
		"/": "/ true", "/var/lib": "/ true", "/run": "/run false", "/run/": "/run false", "/run/libvirt": "/run false", "/running": "/ true",
		"/run/lock": "/run/lock true", "/run/lock/a/b": "/run/lock true", "/run/locks": "/run false", "/dev/kvm": "/dev false",
		"/srv/a":         "/srv false", // the mount on top
		`/with blank\/x`: `/with blank\ true`, "/with": "/ true", "/named": "/named false", "/..data": "/ true",
	} {
		at, shared := mountOf(info, path)
		if got := fmt.Sprint(at, " ", shared); got != want {
			t.Errorf("%s is on %s, want %s", path, got, want)
		}
	}
	if at, shared := mountOf("", "/x"); at != "" || shared {
		t.Errorf("without mounts: %q, %v", at, shared)
	}
}

func FuzzMountOf(f *testing.F) {
	f.Add("22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n30 22 0:20 / /run\\040x rw - tmpfs run rw\n", "/run x/y")
	f.Fuzz(func(t *testing.T, info, path string) {
		if at, shared := mountOf(info, path); at == "" && shared {
			t.Error("no mount is shared")
		}
	})
}

func TestCheckShared(t *testing.T) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	mount := func(source, propagation string) []generation.Service {
		return []generation.Service{{Name: "a", Spec: containers.Spec{Mounts: []containers.Mount{{Source: source, Propagation: propagation}}}}}
	}
	at, shared := mountOf(string(info), "/proc")
	for _, source := range []string{"/proc", link} {
		for _, propagation := range []string{"shared", "rshared"} {
			got := checkShared(mount(source, propagation))
			if shared != (len(got) == 0) || !shared && got[0].Remedy != "mount --make-rshared "+at {
				t.Errorf("%s %s: %+v", source, propagation, got)
			}
		}
		for _, propagation := range []string{"", "private", "rslave"} {
			if got := checkShared(mount(source, propagation)); len(got) > 0 {
				t.Errorf("%s %s: %+v", source, propagation, got)
			}
		}
	}
}

// ours is an engine that has these containers.
type ours struct {
	containers.Engine
	all []containers.Container
}

func (e ours) List(context.Context, map[string]string) ([]containers.Container, error) {
	return e.all, nil
}

func TestIsOurs(t *testing.T) {
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	pid := cmd.Process.Pid
	for name, c := range map[string]struct {
		all  []containers.Container
		want bool
	}{
		"first process":  {[]containers.Container{{PID: pid, State: containers.StateRunning}}, true},
		"nobody's":       {[]containers.Container{{PID: os.Getpid(), State: containers.StateRunning}}, false},
		"ended":          {[]containers.Container{{PID: 0, State: containers.StateExited}}, false},
		"no containers":  {nil, false},
		"ended just now": {[]containers.Container{{PID: 1 << 30, State: containers.StateRunning}, {PID: pid, State: containers.StateRunning}}, true},
	} {
		n := &node.Node{Host: host.Real(), Engine: ours{all: c.all}}
		if got, err := isOurs(t.Context(), n, pid); err != nil || got != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
