package conformance

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/kollet/kollet/containers"
)

var createTests = []test{
	{"spec is read back", func(t *testing.T, s *suite) {
		for name, spec := range s.specs(t) {
			t.Run(name, func(t *testing.T) {
				id := s.create(t, spec)
				c := s.inspect(t, id)
				wantSpec(t, c, spec)
				equal(t, "id", c.ID, id)
				equal(t, "image", c.ImageID, s.base.ID)
				equal(t, "state", c.State, containers.StateCreated)
				equal(t, "pid", c.PID, 0)
				if c.Created.IsZero() || !c.Started.IsZero() || !c.Finished.IsZero() {
					t.Errorf("created %v, started %v, finished %v", c.Created, c.Started, c.Finished)
				}
				must(t, s.Engine.Start(t.Context(), id))
				wantSpec(t, s.inspect(t, id), spec)
				must(t, s.Engine.Stop(t.Context(), id, 0))
				wantSpec(t, s.inspect(t, id), spec)
			})
		}
	}},
	{"image configuration is the default", func(t *testing.T, s *suite) {
		spec := s.script("")
		spec.Entrypoint, spec.Command = nil, nil
		equal(t, "output", s.run(t, spec), "command of the image")
		spec = s.script("")
		spec.Entrypoint, spec.Command = nil, []string{"-c", "echo command of the spec"}
		equal(t, "output", s.run(t, spec), "command of the spec")
		spec = s.script("")
		spec.Entrypoint, spec.Command = []string{"/bin/echo", "entrypoint of the spec"}, nil
		equal(t, "output", s.run(t, spec), "entrypoint of the spec")
	}},
	{"name in use is refused", func(t *testing.T, s *suite) {
		spec := s.script("true")
		s.create(t, spec)
		s.refuses(t, spec, spec.Name)
	}},
	{"missing image is not found", func(t *testing.T, s *suite) {
		spec := s.script("true")
		spec.Image = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
		wantErrorIs(t, s.refuses(t, spec, spec.Name), containers.ErrNotFound)
	}},
	{"image by tag is refused", func(t *testing.T, s *suite) {
		spec := s.script("true")
		spec.Image = s.Registry.Addr + "/conformance/base:1"
		s.refuses(t, spec, spec.Image, "digest")
	}},
	{"missing bind source is refused and not created", func(t *testing.T, s *suite) {
		missing := filepath.Join(t.TempDir(), "missing")
		spec := s.script("true")
		spec.Mounts = []containers.Mount{
			{Type: containers.Volume, Source: unique("v"), Target: "/v"},
			{Type: containers.Bind, Source: missing, Target: "/m"},
		}
		s.refuses(t, spec, missing)
		if _, err := os.Lstat(missing); !os.IsNotExist(err) {
			t.Errorf("%s: %v", missing, err)
		}
	}},
	{"cancelled create leaves nothing behind", func(t *testing.T, s *suite) {
		before := s.names(t)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel() // at any moment of the creation
			id, err := s.Engine.Create(ctx, s.script("true"))
			if err == nil {
				must(t, s.Engine.Remove(t.Context(), id))
				continue
			}
			wantErrorIs(t, err, context.Canceled)
		}
		if after := s.names(t); !reflect.DeepEqual(before, after) {
			t.Errorf("containers before %v, after %v", before, after)
		}
	}},
	{"list by labels", func(t *testing.T, s *suite) {
		group, other := unique("group"), unique("other")
		spec := s.script(forever)
		spec.Labels["group"], spec.Labels["empty"] = group, ""
		running := s.start(t, spec)
		spec = s.script("true")
		spec.Labels["group"], spec.Labels["kind"] = group, "second"
		created := s.create(t, spec)
		spec = s.script("true")
		spec.Labels["group"] = other
		s.create(t, spec)
		for _, c := range []struct {
			labels map[string]string
			want   map[string]containers.State
		}{
			{map[string]string{"group": group}, map[string]containers.State{running: containers.StateRunning, created: containers.StateCreated}},
			{map[string]string{"group": group, "kind": "second"}, map[string]containers.State{created: containers.StateCreated}},
			{map[string]string{"group": group, "empty": ""}, map[string]containers.State{running: containers.StateRunning}},
			{map[string]string{"group": group, "kind": "third"}, map[string]containers.State{}},
			// Anyone can build an image with any label.
			{map[string]string{"group": group, "from-image": "yes"}, map[string]containers.State{}},
		} {
			found, err := s.Engine.List(t.Context(), c.labels)
			must(t, err)
			got := map[string]containers.State{}
			for _, f := range found {
				got[f.ID] = f.State
				if !reflect.DeepEqual(f, s.inspect(t, f.ID)) {
					t.Errorf("list returns %+v, inspect something else", f)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%v: got %v, want %v", c.labels, got, c.want)
			}
		}
	}},
}

// specs returns specs such as kollet uses, from the smallest to one with every
// setting.
func (s *suite) specs(t *testing.T) map[string]containers.Spec {
	dir := sharedDir(t)
	smallest := containers.Spec{Name: unique("c"), Image: s.base.ID, NetworkMode: "none", Restart: containers.RestartNo}

	same := s.script(forever) // sets what the image sets
	same.Env = map[string]string{"BOTH": "the image", "PATH": "/bin"}
	same.Labels = map[string]string{"both": "the image"}
	same.WorkingDir, same.StopSignal = fromImage.WorkingDir, fromImage.StopSignal
	same.Entrypoint, same.Command = fromImage.Entrypoint, fromImage.Cmd

	full := s.script(forever)
	full.Labels = map[string]string{"org.kollet.service": "nova-libvirt", "from-image": "no", "empty": ""}
	full.Env = map[string]string{"A": "1", "EMPTY": "", "BOTH": "the spec", "LINES": "one\ntwo = 2"}
	full.WorkingDir, full.User, full.StopSignal = "/tmp", "0:0", "SIGINT"
	full.Privileged, full.PID, full.IPC, full.Cgroup = true, "host", "host", "host"
	full.Restart, full.LogSize, full.LogFiles = containers.RestartUnlessStopped, 1<<20, 3
	full.Dimensions.MemLimit = 64 << 20
	full.Ulimits = []containers.Ulimit{{Name: "nofile", Soft: 1000, Hard: 2000}, {Name: "core", Soft: 0, Hard: 0}}
	full.Mounts = []containers.Mount{
		{Type: containers.Bind, Source: dir + "/", Target: "/z/shared/", Propagation: "rshared"},
		{Type: containers.Bind, Source: dir, Target: "/a/slave", Propagation: "rslave", ReadOnly: true},
		{Type: containers.Bind, Source: "/dev", Target: "/dev"},
		{Type: containers.Bind, Source: dir, Target: "/a/private", Propagation: "rprivate"},
		{Type: containers.Volume, Source: unique("v"), Target: "/data"},
		{Type: containers.Tmpfs, Target: "/run"},
		{Type: containers.Tmpfs, Target: "/sized", Size: 1 << 20},
		{Type: containers.Tmpfs, Target: "/moded", Mode: "1700", ReadOnly: true},
	}

	confined := s.script(forever)
	confined.Restart = ""
	confined.ReadOnly = true
	confined.User = "nova"
	confined.CapDrop, confined.CapAdd = []string{"ALL"}, []string{"cap_net_admin", "CHOWN", "NET_ADMIN"}
	confined.Devices = []string{"/dev/full", "/dev/null"}
	confined.Env, confined.Mounts = map[string]string{}, []containers.Mount{}
	confined.LogSize = 4096
	confined.Dimensions = containers.Dimensions{
		MemLimit: 64 << 20, MemReservation: 32 << 20, MemswapLimit: -1,
		CPUPeriod: 50000, CPUQuota: 25000, CPUShares: 512, CpusetCpus: "0", CpusetMems: "0",
	}
	return map[string]containers.Spec{"smallest": smallest, "same as the image": same, "full": full, "confined": confined}
}

func wantSpec(t *testing.T, c containers.Container, want containers.Spec) {
	t.Helper()
	if want = want.Canonical(); !reflect.DeepEqual(c.Spec, want) {
		t.Errorf("read back\n%+v, created from\n%+v", c.Spec, want)
	}
}

// refuses checks that Create returns an error with all words, and leaves no
// container behind.
func (s *suite) refuses(t *testing.T, spec containers.Spec, words ...string) error {
	t.Helper()
	before := s.names(t)
	id, err := s.Engine.Create(t.Context(), spec)
	if err == nil {
		s.removeLater(t, id)
	}
	wantError(t, err, words...)
	if after := s.names(t); !reflect.DeepEqual(before, after) {
		t.Errorf("containers before %v, after %v", before, after)
	}
	return err
}

// names returns the names of all containers of the suite, by id.
func (s *suite) names(t *testing.T) map[string]string {
	t.Helper()
	all, err := s.Engine.List(t.Context(), map[string]string{suiteLabel: "yes"})
	must(t, err)
	names := map[string]string{}
	for _, c := range all {
		names[c.ID] = c.Spec.Name
	}
	return names
}
