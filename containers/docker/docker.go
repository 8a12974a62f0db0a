// Package docker implements containers.Engine for Docker 20.10 and newer. It is
// the only package that imports Docker's client.
package docker

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"github.com/kollet/kollet/containers"
	"github.com/kollet/kollet/containers/failure"
)

// oldestAPI is the API of Docker 20.10, the first with cgroup namespace modes.
const oldestAPI = "1.41"

// Engine is a Docker engine on this host.
type Engine struct {
	client  *client.Client
	errors  failure.Engine
	dialect Dialect

	mutex    sync.Mutex
	cgroupV2 *bool // nil until Info has returned
	images   map[string]*imageConfig

	allowPodman bool // only for running the test suite on Podman
}

var _ containers.Engine = (*Engine)(nil)

// New returns a client of the engine at address, a URL such as
// unix:///run/docker.sock or the path of a socket. If address is empty, New uses
// the variables of the docker command (DOCKER_HOST and so on), then Docker's
// default socket. New does not contact the engine; Info does.
func New(address string) (*Engine, error) {
	opts := []client.Opt{client.FromEnv}
	if path.IsAbs(address) {
		address = "unix://" + address
	}
	if address != "" {
		opts = []client.Opt{client.WithHost(address)}
	}
	c, err := client.NewClientWithOpts(append(opts, client.WithAPIVersionNegotiation())...)
	if err != nil {
		return nil, fmt.Errorf("docker at %q: %w; expected an address such as %s", cmp.Or(address, os.Getenv(client.EnvOverrideHost)), err, client.DefaultDockerHost)
	}
	return &Engine{client: c, errors: explainer(c.DaemonHost()), dialect: dockers, images: map[string]*imageConfig{}}, nil
}

// Close releases the connection.
func (e *Engine) Close() error { return e.client.Close() }

// Info returns the engine's version and settings.
func (e *Engine) Info(ctx context.Context) (containers.Info, error) {
	info, err := e.client.Info(ctx)
	if err != nil {
		return containers.Info{}, e.fail("asking docker for its version", err)
	}
	if err := e.refusePodman(ctx, info); err != nil {
		return containers.Info{}, err
	}
	api := e.client.ClientVersion()
	if versions.LessThan(api, oldestAPI) {
		return containers.Info{}, fmt.Errorf("docker %s at %s has API version %s, kollet needs %s; upgrade Docker to 20.10 or newer",
			info.ServerVersion, e.client.DaemonHost(), api, oldestAPI)
	}
	e.mutex.Lock()
	v2 := info.CgroupVersion == "2"
	e.cgroupV2 = &v2
	e.mutex.Unlock()
	return containers.Info{
		Name:        "docker",
		Version:     info.ServerVersion,
		API:         api,
		Address:     e.client.DaemonHost(),
		Root:        info.DockerRootDir,
		Cgroups:     fmt.Sprintf("%s, v%s", info.CgroupDriver, info.CgroupVersion),
		Images:      imageStore(info),
		LiveRestore: info.LiveRestoreEnabled,
	}, nil
}

// imageStore returns containerd if Docker keeps its images there: the default of a new
// Docker 29, and possible since 23 (daemon/containerd, ImageService.LayerStoreStatus).
func imageStore(info system.Info) string {
	if slices.Contains(info.DriverStatus, [2]string{"driver-type", "io.containerd.snapshotter.v1"}) {
		return "containerd"
	}
	return ""
}

// policyPodman is the first Podman that can change the restart policy of a container: in 5.0.3
// UpdateContainer of pkg/api/handlers/libpod/containers.go has no parameter for it.
const policyPodman = "5.1.0"

// refusePodman returns an error if Podman answers at Docker's address. Podman
// implements enough of Docker's API to bootstrap a node, but not to upgrade it: package podman
// also uses Podman's own.
func (e *Engine) refusePodman(ctx context.Context, info system.Info) error {
	if info.ContainerdCommit.ID != "" || e.allowPodman { // Podman has no containerd
		return nil
	}
	version, err := e.client.ServerVersion(ctx)
	if err != nil {
		return e.fail("asking docker for its version", err)
	}
	if slices.ContainsFunc(version.Components, func(c types.ComponentVersion) bool { return c.Name == "Podman Engine" }) {
		if versions.LessThan(version.Version, policyPodman) {
			return fmt.Errorf("podman %s answers at %s, which kollet does not support: it cannot change a container's restart policy, and does not return every setting of a container; use Docker or containerd, or upgrade Podman to %s or newer and set engine: podman, see docs/engines.md",
				version.Version, e.client.DaemonHost(), policyPodman)
		}
		return fmt.Errorf("podman %s answers at %s, with which kollet does not use Docker's API; set engine: podman in the node file",
			version.Version, e.client.DaemonHost())
	}
	return nil
}

// hasCgroupV2 reports whether containers get cgroup v2. That cannot change while
// the host is up.
func (e *Engine) hasCgroupV2(ctx context.Context) (bool, error) {
	e.mutex.Lock()
	known := e.cgroupV2
	e.mutex.Unlock()
	if known == nil {
		if _, err := e.Info(ctx); err != nil {
			return false, err
		}
		e.mutex.Lock()
		known = e.cgroupV2
		e.mutex.Unlock()
	}
	return *known, nil
}
