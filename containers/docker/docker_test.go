package docker_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/conformance"
	"github.com/kollet/kollet/containers/docker"
	"github.com/kollet/kollet/test/machine"
)

func TestMain(m *testing.M) { machine.Main(m) }

func TestConformance(t *testing.T) {
	daemon := machine.Dockerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon.Socket)
	info, err := engine.Info(t.Context())
	must(t, err)
	imageStore := info.Images == "containerd"
	conformance.Run(t, conformance.Subject{
		Engine:   engine,
		Registry: conformance.Registry{Addr: registry.Addr, Stop: registry.Stop, Start: registry.Start},
		Restart:  func() { daemon.Stop(); daemon.Start() },
		Crash:    func() { daemon.Kill(); daemon.Start() },
		Pause:    func(id string) *exec.Cmd { return exec.Command("docker", "-H", daemon.Socket, "pause", id) },

		StartsStopped:   true,
		HasHealthchecks: true,
		Layouts:         imageStore,
		ManifestIDs:     imageStore,
		HidesSizes:      imageStore,
		TrustsLayers:    imageStore,
	})
}

func connect(t *testing.T, address string) *docker.Engine {
	t.Helper()
	engine, err := docker.New(address)
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	return engine
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError checks that an error has one line and contains all words.
func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q does not contain %q, or has several lines", err, w)
		}
	}
}

func TestUnreachable(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "docker.sock")
	for _, address := range []string{"unix://" + dead, dead, ""} {
		t.Setenv("DOCKER_HOST", "unix://"+dead)
		_, err := connect(t, address).Info(t.Context())
		wantError(t, err, dead+" cannot be reached; start it")
		if strings.Contains(err.Error(), "?") {
			t.Errorf("%q asks", err)
		}
		if !errors.Is(err, containers.ErrUnreachable) {
			t.Errorf("%v is not ErrUnreachable", err)
		}
	}
	_, err := docker.New("carrier pigeon")
	wantError(t, err, "carrier pigeon", "unix://")
}

func TestOldEngine(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.40")
		fmt.Fprint(w, `{"ServerVersion":"19.03.15"}`)
	}))
	defer server.Close()
	_, err := connect(t, "tcp://"+server.Listener.Addr().String()).Info(t.Context())
	wantError(t, err, "19.03.15", "1.40", "upgrade Docker")
}

func TestPodmanAnswers(t *testing.T) {
	for version, supported := range map[string]bool{"4.3.1": false, "5.0.3": false, "5.1.0": true, "5.8.1": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("API-Version", "1.41")
			switch {
			case strings.HasSuffix(r.URL.Path, "/version"):
				fmt.Fprintf(w, `{"Version":%q,"Components":[{"Name":"Podman Engine","Version":%q}]}`, version, version)
			default:
				fmt.Fprintf(w, `{"ServerVersion":%q}`, version)
			}
		}))
		defer server.Close()
		engine := connect(t, "tcp://"+server.Listener.Addr().String())
		_, err := engine.Info(t.Context())
		want := []string{"podman " + version, server.Listener.Addr().String(), "set engine: podman"}
		if !supported {
			want = append(want, "does not support", "restart policy", "every setting", "use Docker or containerd", "upgrade Podman to 5.1")
		}
		wantError(t, err, want...)
		if supported && strings.Contains(err.Error(), "upgrade") {
			t.Errorf("%s is supported, and has to be upgraded: %q", version, err)
		}
	}
}

// TestDocker tests what only Docker has; raw is Docker's own client.
func TestDocker(t *testing.T) {
	daemon := machine.Dockerd(t)
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon.Socket)
	raw, err := client.NewClientWithOpts(client.WithHost(daemon.Socket), client.WithAPIVersionNegotiation())
	must(t, err)
	defer raw.Close()
	ref := conformance.Push(t, registry.Addr)
	base, err := engine.Pull(t.Context(), ref, nil)
	must(t, err)
	spec := containers.Spec{Name: "first", Image: base.ID, NetworkMode: "host", Entrypoint: []string{"/bin/sleep", "100000"}}
	volumes := func(t *testing.T) map[string]*volume.Volume {
		t.Helper()
		list, err := raw.VolumeList(t.Context(), volume.ListOptions{})
		must(t, err)
		out := map[string]*volume.Volume{}
		for _, v := range list.Volumes {
			out[v.Name] = v
		}
		return out
	}

	t.Run("volumes", func(t *testing.T) {
		spec := spec
		spec.Mounts = []containers.Mount{{Type: containers.Volume, Source: "mine", Target: "/mine"}}
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		must(t, engine.Start(t.Context(), id))
		with := volumes(t)
		if v := with["mine"]; v == nil || v.Labels["org.kollet.volume"] != "true" || len(with) != 2 {
			t.Errorf("want mine, with the label, and the volume that the image declares: %v", with)
		}
		// Docker creates the volumes before it finds that a target is a file: the
		// existing volume stays, the new ones are removed.
		spec.Name = "second"
		for name, target := range map[string]string{"new": "/new", "newer": "/etc/passwd"} {
			spec.Mounts = append(spec.Mounts, containers.Mount{Type: containers.Volume, Source: name, Target: target})
		}
		// Docker 29 finds it when the container is started.
		if other, err := engine.Create(t.Context(), spec); err == nil {
			wantError(t, engine.Start(t.Context(), other), "starting container second", "/etc/passwd")
			must(t, engine.Remove(t.Context(), other))
			must(t, raw.VolumeRemove(t.Context(), "new", false))
			must(t, raw.VolumeRemove(t.Context(), "newer", false))
		} else {
			wantError(t, err, "creating container second", "/etc/passwd")
		}
		if got := volumes(t); !reflect.DeepEqual(keys(got), keys(with)) {
			t.Errorf("volumes before %v, after %v", keys(with), keys(got))
		}
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, engine.Remove(t.Context(), id))
		if got := volumes(t); len(got) != 1 || got["mine"] == nil {
			t.Errorf("volumes left: %v", keys(got))
		}
	})

	// A reboot removes what is below /run.
	t.Run("directories of /run", func(t *testing.T) {
		volatile, err := os.MkdirTemp("/run", "kollet-test-") //nolint:usetesting // it must be below /run
		must(t, err)
		defer os.RemoveAll(volatile)
		lasting := t.TempDir()
		spec := spec
		spec.Mounts = []containers.Mount{
			{Type: containers.Bind, Source: volatile, Target: "/run/volatile", ReadOnly: true},
			{Type: containers.Bind, Source: lasting, Target: "/lasting"},
		}
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		defer engine.Remove(t.Context(), id)
		c, err := engine.Inspect(t.Context(), id)
		must(t, err)
		if want := spec.Canonical(); !reflect.DeepEqual(c.Spec.Mounts, want.Mounts) {
			t.Errorf("read back %+v, want %+v", c.Spec.Mounts, want.Mounts)
		}
		must(t, os.Remove(volatile))
		must(t, engine.Start(t.Context(), id))
		if st, err := os.Stat(volatile); err != nil || !st.IsDir() {
			t.Errorf("the directory that the container mounts: %v", err)
		}
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, os.Remove(lasting))
		wantError(t, engine.Start(t.Context(), id), lasting)
	})

	t.Run("changed manually", func(t *testing.T) {
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		defer engine.Remove(t.Context(), id)
		_, err = raw.ContainerUpdate(t.Context(), id, container.UpdateConfig{RestartPolicy: container.RestartPolicy{Name: "always"}})
		must(t, err)
		c, err := engine.Inspect(t.Context(), id)
		must(t, err)
		want := spec.Canonical()
		if want.Restart = "always"; !reflect.DeepEqual(c.Spec, want) {
			t.Errorf("read back %+v, want %+v", c.Spec, want)
		}
		must(t, exec.Command("docker", "-H", daemon.Socket, "update", "--cpu-shares=512", "--cpus=0.5", id).Run())
		c, err = engine.Inspect(t.Context(), id)
		must(t, err)
		if want := (containers.Dimensions{CPUShares: 512, CPUPeriod: 100_000, CPUQuota: 50_000}); c.Spec.Dimensions != want {
			t.Errorf("read back %+v, want %+v", c.Spec.Dimensions, want)
		}
	})

	t.Run("image removed", func(t *testing.T) {
		other := connect(t, daemon.Socket) // without the image in its cache
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		defer engine.Remove(t.Context(), id)
		_, err = raw.ImageRemove(t.Context(), base.ID, image.RemoveOptions{Force: true})
		must(t, err)
		c, err := other.Inspect(t.Context(), id)
		must(t, err)
		if !reflect.DeepEqual(c.Spec, spec.Canonical()) {
			t.Errorf("read back %+v, want %+v", c.Spec, spec.Canonical())
		}
		_, err = engine.Create(t.Context(), spec)
		wantError(t, err, "pull it first")
		_, err = engine.Pull(t.Context(), ref, nil)
		must(t, err)
	})

	t.Run("dead container", func(t *testing.T) {
		id, err := engine.Create(t.Context(), spec)
		must(t, err)
		stuck := filepath.Join(daemon.Root, "containers", id, "stuck")
		must(t, os.WriteFile(stuck, nil, 0o600))
		must(t, exec.Command("chattr", "+i", stuck).Run())
		err = engine.Remove(t.Context(), id)
		must(t, exec.Command("chattr", "-i", stuck).Run())
		wantError(t, err, "first", id)
		c, err := raw.ContainerInspect(t.Context(), id)
		must(t, err)
		if c.State.Status != container.StateDead {
			t.Errorf("state is %s", c.State.Status)
		}
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, engine.Remove(t.Context(), id))
		_, err = engine.Inspect(t.Context(), id)
		if !errors.Is(err, containers.ErrNotFound) {
			t.Error(err)
		}
	})

	t.Run("engine dies during a request", func(t *testing.T) {
		talker := spec
		talker.Entrypoint = []string{"/bin/sh", "-c", "trap exit TERM; echo up; sleep 100000 & wait"}
		id, err := engine.Create(t.Context(), talker)
		must(t, err)
		must(t, engine.Start(t.Context(), id))
		answers := make(chan error, 2)
		up := make(chan struct{}, 1)
		go func() {
			answers <- engine.Logs(t.Context(), id, containers.LogOptions{Follow: true}, signal(up))
		}()
		<-up
		go func() {
			_, err := engine.Exec(t.Context(), id, containers.Exec{Argv: []string{"sh", "-c", "echo up; sleep 100000"}, Stdout: signal(up)})
			answers <- err
		}()
		<-up
		daemon.Kill()
		for range 2 {
			err := <-answers
			if wantError(t, err, daemon.Socket); !errors.Is(err, containers.ErrUnreachable) {
				t.Errorf("%v is not ErrUnreachable", err)
			}
		}
		daemon.Start()
		must(t, engine.Stop(t.Context(), id, 0))
		must(t, engine.Remove(t.Context(), id))
	})
}

// signal is a writer that signals the first write.
type signal chan struct{}

func (s signal) Write(p []byte) (int, error) {
	select {
	case s <- struct{}{}:
	default:
	}
	return len(p), nil
}

func keys[V any](m map[string]V) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

func TestLiveRestore(t *testing.T) {
	daemon := machine.Dockerd(t, machine.LiveRestore())
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon.Socket)
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	info, err := engine.Info(t.Context())
	must(t, err)
	if !info.LiveRestore || info.Root != daemon.Root || info.Address != daemon.Socket || !strings.HasPrefix(info.Cgroups, "cgroupfs, v") {
		t.Errorf("%+v", info)
	}
	id, err := engine.Create(t.Context(), containers.Spec{Name: "first", Image: base.Digest, NetworkMode: "host",
		Entrypoint: []string{"/bin/sleep", "100000"}, Restart: containers.RestartUnlessStopped})
	must(t, err)
	must(t, engine.Start(t.Context(), id))
	before, err := engine.Inspect(t.Context(), id)
	must(t, err)
	daemon.Stop()
	daemon.Start()
	after, err := engine.Inspect(t.Context(), id)
	must(t, err)
	if !reflect.DeepEqual(before, after) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	must(t, engine.Stop(t.Context(), id, 0))
}

// On many hosts the container manager withholds a capability; here a runtime drops
// one.
func TestRestrictedCapabilities(t *testing.T) {
	runtime := filepath.Join(machine.Dir(t, "runtime"), "restricted")
	must(t, os.WriteFile(runtime, []byte("#!/bin/sh\nulimit -l 64\nexec setpriv --bounding-set=-sys_resource,-wake_alarm -- runc \"$@\"\n"), 0o755))
	daemon := machine.Dockerd(t, machine.DockerArgs("--add-runtime=restricted="+runtime, "--default-runtime=restricted"))
	registry := machine.NewRegistry(t)
	engine := connect(t, daemon.Socket)
	base, err := engine.Pull(t.Context(), conformance.Push(t, registry.Addr), nil)
	must(t, err)
	id, err := engine.Create(t.Context(), containers.Spec{Name: "nova-libvirt", Image: base.ID, NetworkMode: "host", Privileged: true})
	must(t, err)
	wantError(t, engine.Start(t.Context(), id), "nova-libvirt", "unable to apply caps", "capability bounding set", "privileged", "allow all capabilities")
	id, err = engine.Create(t.Context(), containers.Spec{Name: "limited", Image: base.ID, NetworkMode: "host", Ulimits: []containers.Ulimit{{Name: "memlock", Soft: 1 << 20, Hard: 1 << 20}}})
	must(t, err)
	wantError(t, engine.Start(t.Context(), id), "limited", "error setting rlimit", "CAP_SYS_RESOURCE", "ulimits of the service")
}
