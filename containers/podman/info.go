package podman

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kollet/kollet/agent/host"
	"github.com/kollet/kollet/containers"
)

// Info returns Podman's version and settings. Podman takes a second and more to answer that: it asks
// the machine's package manager where its programs are from (libpod/info.go). So it is asked only if
// it has no container of kollet, which tells the same.
func (e *Engine) Info(ctx context.Context) (containers.Info, error) {
	const doing = "asking podman for its version"
	version, err := e.version(ctx)
	if err != nil {
		return containers.Info{}, e.Explain(doing, err)
	}
	address := "unix://" + e.libpod.socket
	if version == "" {
		return containers.Info{}, fmt.Errorf("what answers at %s is not podman; correct the address, or set engine: docker in the node file", address)
	}
	if older(version) {
		return containers.Info{}, fmt.Errorf("podman %s at %s cannot change the restart policy of a container, which kollet needs: the containers of an upgrade are not restarted before the commit, and those of a service are; upgrade it to 5.1 or newer, or use Docker or containerd",
			version, address)
	}
	settings, known, err := e.settingsOfContainer(ctx)
	if err == nil && !known {
		settings, err = e.settings(ctx)
	}
	if err != nil {
		return containers.Info{}, e.Explain(doing, err)
	}
	if settings.rootless {
		return containers.Info{}, fmt.Errorf("podman at %s runs without root, and cannot run the services of a compute node; use root's (systemctl enable --now podman.socket)", address)
	}
	return containers.Info{
		Name:        "podman",
		Version:     version,
		API:         version, // libpod's is that of Podman
		Address:     address,
		Root:        settings.root,
		Cgroups:     settings.cgroups,
		LiveRestore: true, // each container has a monitor of its own
	}, nil
}

// version returns Podman's version, empty if another engine answers.
func (e *Engine) version(ctx context.Context) (string, error) {
	request, err := e.libpod.request(ctx, http.MethodGet, "_ping", nil, nil)
	if err != nil {
		return "", err
	}
	response, err := e.libpod.send(request)
	if err != nil {
		return "", err
	}
	response.Body.Close()
	return response.Header.Get("Libpod-API-Version"), nil // pkg/api/server/handler_api.go
}

// settings are those of a Podman service.
type settings struct {
	root     string // its data directory
	cgroups  string // the manager of cgroups and their version
	rootless bool
}

// askTime bounds how long Podman is asked for its settings. A caller may give up much earlier, and ask
// again for the same answer.
const askTime = 2 * time.Minute

// question is a question for Podman's settings, and its answer when done is closed.
type question struct {
	done     chan struct{}
	settings settings
	err      error
}

// settings asks Podman once.
func (e *Engine) settings(ctx context.Context) (settings, error) {
	e.mutex.Lock()
	q := e.asked
	if q == nil {
		q = &question{done: make(chan struct{})}
		e.asked = q
		go func() {
			asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
			defer cancel()
			defer close(q.done)
			if q.settings, q.err = e.askSettings(asking); q.err != nil {
				e.mutex.Lock()
				e.asked = nil
				e.mutex.Unlock()
			}
		}()
	}
	e.mutex.Unlock()
	select {
	case <-q.done:
		return q.settings, q.err
	case <-ctx.Done():
		return settings{}, ctx.Err()
	}
}

func (e *Engine) askSettings(ctx context.Context) (settings, error) {
	var info struct {
		Host struct {
			CgroupManager string `json:"cgroupManager"`
			CgroupVersion string `json:"cgroupVersion"`
			Security      struct {
				Rootless bool `json:"rootless"`
			} `json:"security"`
		} `json:"host"`
		Store struct {
			GraphRoot string `json:"graphRoot"`
		} `json:"store"`
	}
	err := e.libpod.get(ctx, "info", nil, &info)
	return settings{info.Store.GraphRoot, cgroups(info.Host.CgroupManager, info.Host.CgroupVersion), info.Host.Security.Rootless}, err
}

// settingsOfContainer returns the settings with which a container of kollet was created, if there is one:
// the service is root's then.
func (e *Engine) settingsOfContainer(ctx context.Context) (found settings, known bool, err error) {
	filters, err := json.Marshal(map[string][]string{"label": {specLabel}})
	if err != nil {
		return settings{}, false, err
	}
	var one []struct {
		ID string `json:"Id"`
	}
	query := url.Values{"all": {"true"}, "limit": {"1"}, "filters": {string(filters)}}
	if err := e.libpod.get(ctx, "containers/json", query, &one); err != nil || len(one) == 0 {
		return settings{}, false, err
	}
	var c struct {
		StaticDir  string
		HostConfig struct{ CgroupManager string }
	}
	version := "v1"
	v2, err := host.Real().CgroupV2()
	if v2 {
		version = "v2"
	}
	if err == nil {
		err = e.libpod.get(ctx, "containers/"+one[0].ID+"/json", nil, &c)
	}
	const below = "/overlay-containers/" // store.go of containers/storage, ContainerDirectory; the driver's name comes first
	root, _, inside := strings.Cut(c.StaticDir, below)
	if err != nil || !inside || !filepath.IsAbs(root) {
		return settings{}, false, nil //nolint:nilerr // it may just have been removed; Podman knows
	}
	return settings{root: root, cgroups: cgroups(c.HostConfig.CgroupManager, version)}, true, nil
}

func cgroups(manager, version string) string { return manager + ", " + version }

// older reports whether a version is older than 5.1, the first that can change a restart policy
// (pkg/api/handlers/libpod/containers.go, UpdateContainer).
func older(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, err := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	return err != nil || err2 != nil || a < 5 || a == 5 && b < 1
}
